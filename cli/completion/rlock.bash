# Completion of rlock(1) for bash. What can be said, the command's own --help says; the server knows the names of locks.

# Prints the names of locks that begin with $2, one a line: those without blanks, quotes and backslashes. $1 is the command;
# the words of its line follow. Prints nothing if no server is known, or if it does not answer within a second.
_rlock_names() {
    local command=$1 start=$2 given=() prefix='' pattern url=${RLOCK_URL-}
    shift 2
    while (($# > 1)); do
        case $1 in
            --url | --password-file | --sentinel-user | --sentinel-password-file | --cacert | --cert | --key | --prefix)
                given+=("$1" "$2")
                if [[ $1 = --url ]]; then url=$2; elif [[ $1 = --prefix ]]; then prefix=$2; fi
                shift
                ;;
            --sentinel-plain) given+=("$1") ;;
        esac
        shift
    done
    if [[ -z $url ]]; then return; fi
    pattern=$start*
    if [[ $start = *[]\\*?[^]* ]]; then pattern='*'; fi
    timeout 1 "$command" ls --quiet --json "${given[@]}" -- "$pattern" 2>/dev/null </dev/null |
        sed -nE "s/^\{\"key\":\"([^\"\\\\' ]+)\".*/\1/p" |
        while IFS= read -r name; do
            name=${name#"$prefix"}
            if [[ $name = "$start"* ]]; then printf '%s\n' "$name"; fi
        done
}

_rlock() {
    local command=$1 word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]-} i words=
    local line=()
    COMPREPLY=()
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [[ $verb = @(run|elect) && ${COMP_WORDS[i]} = -- ]]; then # from here on it is the other command's
            if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi
            return
        fi
    done
    case $before in
        --password-file | --sentinel-password-file | --cacert | --cert | --key) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
        --kind) words='reentrant non-reentrant spin fenced fair read write setnx permits semaphore' ;;
        --keep) words=$$ ;;
        --wait | -w | --lease | --at-least | --renewed-lease | --max-hold | --fair-slot | --max-lease) words='300ms 2s 1m 1h' ;;
        *)
            if ((COMP_CWORD == 1)); then
                words='run elect acquire extend release info ls break slots doctor --help --version'
            elif [[ $word = -* ]]; then
                words=$("$command" "$verb" --help 2>/dev/null | sed -nE 's/^ +(-[A-Za-z], )?(--[a-z-]+).*/\2/p')
            elif [[ $verb = @(run|elect|acquire|extend|release|info|break|slots) ]]; then
                # bash splits words at colons, as in order:7 and in a URL; what stands before the last one stays
                read -ra line <<<"${COMP_LINE:0:COMP_POINT}"
                if [[ $COMP_LINE = *[[:space:]] ]]; then line+=(''); fi
                mapfile -t COMPREPLY < <(_rlock_names "$command" "${line[-1]}" "${line[@]}")
                if [[ $COMP_WORDBREAKS = *:* && ${line[-1]} = *:* ]]; then
                    COMPREPLY=("${COMPREPLY[@]#"${line[-1]%"${line[-1]##*:}"}"}")
                fi
                return
            fi
            ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _rlock rlock
