# Tests: one ctest entry per cmocka case, and the test of what is installed.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_program(RLOCK_TEST_GOLD ld.gold)

set(RLOCK_TEST_ENVIRONMENT
    ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
    UBSAN_OPTIONS=print_stacktrace=1
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
    RLOCK_REDIS_SERVER=${PROJECT_SOURCE_DIR}/.deps/bin/redis-server
    RLOCK_VALKEY_SERVER=${PROJECT_SOURCE_DIR}/.deps/bin/valkey-server
    RLOCK_COMMAND=${PROJECT_BINARY_DIR}/rlock
    RLOCK_STALL_RUN=${PROJECT_BINARY_DIR}/tests/stall_run
)

# rlock_add_cmocka(<name> SOURCES <file>... [LABELS <label>...] [LIBRARIES <target>...] [TIMEOUT <seconds>]
#     [ASYNC <label>...] [OBJECTS <target>])
# OBJECTS: the library's objects, rlock_objects by default.
# ASYNC: each case runs twice more, with these labels: with async calls in place of those that wait as
# <name>.async.<case>, and with clients that an event loop runs as well as <name>.loop.<case>.
# stall_run ends a test at its TIMEOUT, and does not count the time that the machine stands still. ctest ends it after five
# times as long, whatever happens.
# Builds one executable that sees the library's inner symbols, and registers each case that its sources define by
# ...TEST(case, ...), or mention in cmocka_unit_test*(case, ...), as the test <name>.<case>. Its main function is that of
# support/test.c, unless it has its own, which calls cmocka_set_test_filter(argv[1]).
function(rlock_add_cmocka name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;OBJECTS" "SOURCES;LABELS;LIBRARIES;ASYNC")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    if(NOT arg_OBJECTS)
        set(arg_OBJECTS rlock_objects)
    endif()
    math(EXPR timeout "5 * ${arg_TIMEOUT}")

    add_executable(${name} ${arg_SOURCES})
    rlock_options(${name})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${name} PRIVATE ${arg_OBJECTS} rlock_tls PkgConfig::CMOCKA test_main ${arg_LIBRARIES})
    if(RLOCK_TEST_GOLD AND CMAKE_C_COMPILER_ID STREQUAL GNU) # half the time of the default; clang's sanitizers make it warn
        target_link_options(${name} PRIVATE -fuse-ld=gold)
    endif()
    if(arg_ASYNC)
        target_link_libraries(${name} PRIVATE test_async_calls)
    endif()

    set(tests "")
    set(async "")
    set(loop "")
    foreach(source IN LISTS arg_SOURCES)
        file(READ ${source} text)
        string(REGEX MATCHALL "(cmocka_unit_test[a-z_]*|\n[A-Z_]*TEST)\\([ \n]*[A-Za-z0-9_]+" cases "${text}")
        foreach(case IN LISTS cases)
            string(REGEX REPLACE ".*[^A-Za-z0-9_]" "" case "${case}")
            add_test(NAME ${name}.${case} COMMAND stall_run $<TARGET_FILE:${name}> ${case})
            list(APPEND tests ${name}.${case})
            foreach(calls IN ITEMS async loop)
                if(arg_ASYNC)
                    add_test(NAME ${name}.${calls}.${case} COMMAND stall_run $<TARGET_FILE:${name}> ${case})
                    list(APPEND ${calls} ${name}.${calls}.${case})
                endif()
            endforeach()
        endforeach()
    endforeach()
    if(NOT tests)
        message(FATAL_ERROR "${name}: no TEST(...) in ${arg_SOURCES}")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${arg_SOURCES})
    foreach(calls IN ITEMS async loop)
        if(arg_ASYNC)
            set_tests_properties(${${calls}} PROPERTIES LABELS "${arg_ASYNC}"
                ENVIRONMENT "${RLOCK_TEST_ENVIRONMENT};RLOCK_TEST_LIMIT_S=${arg_TIMEOUT};RLOCK_TEST_CALLS=${calls}")
        endif()
    endforeach()
    set_tests_properties(${tests} PROPERTIES
        LABELS "${arg_LABELS}"
        ENVIRONMENT "${RLOCK_TEST_ENVIRONMENT};RLOCK_TEST_LIMIT_S=${arg_TIMEOUT}")
    set_tests_properties(${tests} ${async} ${loop} PROPERTIES
        TIMEOUT ${timeout}
        SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]"
        FAIL_REGULAR_EXPRESSION "Running 0 test"
    )
endfunction()

# What is installed serves a program, by find_package and by pkg-config, in C and in C++.
if(NOT instrument AND CMAKE_CXX_COMPILER_LOADED)
    add_test(NAME install.consumer COMMAND ${CMAKE_COMMAND}
        -DBUILD=${PROJECT_BINARY_DIR} -DLIBDIR=${CMAKE_INSTALL_LIBDIR} -DVERSION=${PROJECT_VERSION}
        -DCC=${CMAKE_C_COMPILER} -DCXX=${CMAKE_CXX_COMPILER} -DPKG_CONFIG=${PKG_CONFIG_EXECUTABLE}
        -P ${PROJECT_SOURCE_DIR}/cmake/test_install.cmake)
    set_tests_properties(install.consumer PROPERTIES LABELS unit TIMEOUT 120)
endif()

# Sets the variable to a Python that can run the statement; "": none can. The system's comes first: scripts/setup installs
# its modules.
function(rlock_find_python ret statement)
    set(${ret} "" PARENT_SCOPE)
    foreach(candidate IN ITEMS /usr/bin/python3 python3)
        execute_process(COMMAND ${candidate} -c "${statement}" RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
        if(status STREQUAL 0)
            set(${ret} ${candidate} PARENT_SCOPE)
            return()
        endif()
    endforeach()
endfunction()
