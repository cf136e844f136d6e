# Completion of rlock(1) for bash. What can be said, the command's own --help says.
_rlock() {
    local command=$1 word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]-} i words=
    COMPREPLY=()
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [[ $verb = run && ${COMP_WORDS[i]} = -- ]]; then # from here on it is the other command's
            if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi
            return
        fi
    done
    case $before in
        --password-file | --sentinel-password-file | --cacert | --cert | --key) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
        --kind) words='reentrant non-reentrant spin fenced fair read write' ;;
        --wait | -w | --lease | --renewed-lease | --max-hold | --fair-slot | --max-lease) words='300ms 2s 1m 1h' ;;
        *)
            if ((COMP_CWORD == 1)); then
                words='run info ls break doctor --help --version'
            elif [[ $word = -* ]]; then
                words=$("$command" "$verb" --help 2>/dev/null | sed -nE 's/^ +(-[A-Za-z], )?(--[a-z-]+).*/\2/p')
            fi
            ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _rlock rlock
