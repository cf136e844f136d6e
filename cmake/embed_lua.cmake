# cmake -DSCRIPTS=<list> -DROOT=<lua> -DOUT=<directory> -P embed_lua.cmake
# Writes lua_scripts.c and lua_scripts.h: each lua/<kind>/<verb>.lua as a struct rlock__script with its bytes and the
# SHA-1 that Redis will compute of them, and the shapes of its replies, from its comment "-- Shapes …" (wire/reply.h).
# Comment lines and blank lines stay at home, but for a first line "--!…": some servers read that one.
# A script may have others as functions: include '<kind>/<verb>' is a function
# of KEYS and ARGV. What stands in lua/parts is no script: include 'parts/<name>' is a function of what it takes.
set(declared "")
set(defined "")
set(table "")

# Reads a script without its comments.
function(read_script script out)
    file(READ ${script} text)
    if(text MATCHES "--\\[=*\\[")
        message(FATAL_ERROR "${script}: a block comment cannot be stripped; use lines that start with --")
    endif()
    string(REGEX REPLACE "\n[ \t]*--[^\n]*" "" text "\n${text}")
    string(REGEX REPLACE "\n([ \t]*\n)+" "\n" text "${text}")
    string(REGEX REPLACE "^\n" "" text "${text}")
    while(text MATCHES "include '([a-z_/]+)'")
        set(included "${CMAKE_MATCH_1}")
        set(takes "KEYS, ARGV")
        if(included MATCHES "^parts/")
            set(takes "...")
        endif()
        read_script(${ROOT}/${included}.lua function)
        string(REPLACE "include '${included}'" "function(${takes})\n${function}end" text "${text}")
    endwhile()
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

foreach(script IN LISTS SCRIPTS)
    cmake_path(RELATIVE_PATH script BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE name)
    string(REGEX REPLACE "\\.lua$" "" name ${name})
    if(name MATCHES "^parts/")
        continue()
    endif()
    string(MAKE_C_IDENTIFIER ${name} id)

    file(STRINGS ${script} shapes REGEX "^-- Shapes ")
    if(NOT shapes MATCHES "^-- Shapes ([-0123nis*. ]+)$")
        message(FATAL_ERROR "${script}: its head must say the shapes of its replies, in one line: -- Shapes …")
    endif()
    set(shapes "${CMAKE_MATCH_1}")
    read_script(${script} text)
    file(STRINGS ${script} first LIMIT_COUNT 1)
    if(first MATCHES "^--!")
        string(PREPEND text "${first}\n")
    endif()
    set(stripped ${OUT}/lua/${name}.lua)
    file(WRITE ${stripped} "${text}")
    file(SIZE ${stripped} size)
    file(SHA1 ${stripped} sha1)
    file(READ ${stripped} bytes HEX)
    string(REGEX REPLACE "(................................)" "\\1\n    " bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")

    string(APPEND declared "extern const struct rlock__script rlock__script_${id};\n")
    string(APPEND table "    &rlock__script_${id},\n")
    string(APPEND defined "
static const unsigned char body_${id}[] = {
    ${bytes}0x00,
};
const struct rlock__script rlock__script_${id} = {
    .name = \"${name}\",
    .body = (const char *)body_${id},
    .size = ${size},
    .sha1 = \"${sha1}\",
    .shapes = \"${shapes}\",
};
")
endforeach()

set(note "/* Written by cmake/embed_lua.cmake from lua/; do not edit. */\n")
file(WRITE ${OUT}/lua_scripts.h "${note}#ifndef RLOCK__LUA_SCRIPTS_H
#define RLOCK__LUA_SCRIPTS_H

#include \"wire/script.h\"

${declared}
/* All of them, ended by NULL. */
extern const struct rlock__script *const rlock__scripts[];

#endif
")
file(WRITE ${OUT}/lua_scripts.c "${note}#include \"lua_scripts.h\"

#include <stddef.h>
${defined}
const struct rlock__script *const rlock__scripts[] = {
${table}    NULL,
};
")
