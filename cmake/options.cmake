# rlock_options(<target>): languages, warnings, hardening and sanitizers of our own targets; nothing is set globally.
include(CheckCCompilerFlag)

set(RLOCK_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
option(RLOCK_COVERAGE "Count the lines that tests execute" OFF)
option(RLOCK_FUZZ "Build the fuzz targets with libFuzzer, and no other tests (clang)" OFF)
option(RLOCK_WERROR "Take warnings for errors" OFF)
check_c_compiler_flag(-fcf-protection RLOCK_HAS_CF_PROTECTION)

set(warnings -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wvla -Wformat=2 -Wcast-qual -Wwrite-strings
    -Wpointer-arith -Wswitch-enum -Wnull-dereference $<$<BOOL:${RLOCK_WERROR}>:-Werror>)
# What is cut to fit is cut on purpose: details and messages.
set(gcc_warnings -Wno-format-truncation)
set(c_warnings -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition)

set(hardening "")
set(instrument "")
if(RLOCK_SANITIZE)
    list(APPEND instrument -fsanitize=${RLOCK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
else()
    set(hardening -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
    if(RLOCK_HAS_CF_PROTECTION)
        list(APPEND hardening -fcf-protection)
    endif()
endif()
if(RLOCK_FUZZ)
    list(APPEND instrument -fsanitize=fuzzer-no-link)
endif()
if(RLOCK_COVERAGE)
    list(APPEND instrument --coverage)
endif()

# What is installed names no directory of the machine that built it.
set(paths -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${PROJECT_BINARY_DIR}/=)

set(RLOCK_COMPILE_OPTIONS ${paths} ${warnings} "$<$<COMPILE_LANGUAGE:C>:${c_warnings}>"
    "$<$<C_COMPILER_ID:GNU>:${gcc_warnings}>" "$<$<CONFIG:Release,RelWithDebInfo>:${hardening}>" ${instrument})
set(RLOCK_LINK_OPTIONS -Wl,-z,relro,-z,now ${instrument})

function(rlock_options target)
    set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
        CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_compile_options(${target} PRIVATE ${RLOCK_COMPILE_OPTIONS})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
        set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
        target_link_options(${target} PRIVATE ${RLOCK_LINK_OPTIONS} -pie)
    elseif(NOT type STREQUAL OBJECT_LIBRARY)
        target_link_options(${target} PRIVATE ${RLOCK_LINK_OPTIONS})
    endif()
endfunction()
