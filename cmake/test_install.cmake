# Installs the build into a prefix of its own and builds a program against it, in C and in C++: shared and static by
# find_package, shared by pkg-config. Each must run, find TLS, and say the version. The command finds TLS too, where it
# says that nobody listens (69) and not that TLS is not there. What is installed for another machine has no path of this one.
set(top ${BUILD}/test_install)
set(prefix ${top}/prefix)
file(REMOVE_RECURSE ${top})

function(run)
    execute_process(COMMAND ${ARGV} OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "failed (${status}): ${ARGV}\n${out}")
    endif()
    set(out "${out}" PARENT_SCOPE)
endfunction()

file(WRITE ${top}/src/main.c [[
#include <rlock/rlock.h>
#include <rlock/version.h>
#include <stdio.h>

/* A program may have a hiredis of its own. */
int redisReaderGetReply(void)
{
    return 1;
}

int main(void)
{
    struct rlock_client_opts opts = {sizeof(opts)};
    struct rlock_client *client = NULL;

    opts.url = "rediss://127.0.0.1:1";
    if (rlock_client_open(&opts, &client) != 0) {
        puts(rlock_detail());
        return 1;
    }
    rlock_client_close(client);
    printf("%s, %s\n", RLOCK_VERSION, rlock_strerror(0));
    return 0;
}
]])
file(COPY_FILE ${top}/src/main.c ${top}/src/main.cpp)
file(WRITE ${top}/src/CMakeLists.txt [[
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
find_package(rlock 0.1 REQUIRED)
foreach(language IN ITEMS c cpp)
    add_executable(shared_${language} main.${language})
    target_link_libraries(shared_${language} PRIVATE rlock::rlock)
    add_executable(static_${language} main.${language})
    target_link_libraries(static_${language} PRIVATE rlock::rlock_static)
endforeach()
]])

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

get_filename_component(source ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
set(ENV{DESTDIR} ${top}/elsewhere)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix /usr)
unset(ENV{DESTDIR})
execute_process(COMMAND grep -rlF -e ${source}/ -e ${BUILD}/ ${top}/elsewhere/usr OUTPUT_VARIABLE out RESULT_VARIABLE status)
if(NOT status EQUAL 1) # it finds nothing
    message(FATAL_ERROR "installed files contain paths of this machine:\n${out}")
endif()

run(${CMAKE_COMMAND} -G Ninja -S ${top}/src -B ${top}/build -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${top}/build)

execute_process(COMMAND ${prefix}/bin/rlock info --url rediss://127.0.0.1:1 a OUTPUT_VARIABLE out ERROR_VARIABLE out
    RESULT_VARIABLE status)
if(NOT status EQUAL 69)
    message(FATAL_ERROR "the command has no TLS: ${status}, ${out}")
endif()

set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig:$ENV{PKG_CONFIG_PATH})
run(${PKG_CONFIG} --cflags --libs rlock)
separate_arguments(pc UNIX_COMMAND "${out}")
run(${CC} ${top}/src/main.c ${pc} -o ${top}/build/pc_c)
run(${CXX} ${top}/src/main.cpp ${pc} -o ${top}/build/pc_cpp)

set(ENV{LD_LIBRARY_PATH} ${prefix}/${LIBDIR}:$ENV{LD_LIBRARY_PATH})
foreach(program IN ITEMS shared_c shared_cpp static_c static_cpp pc_c pc_cpp)
    run(${top}/build/${program})
    if(NOT out MATCHES "^${VERSION}, ")
        message(FATAL_ERROR "${program} said: ${out}")
    endif()
endforeach()
