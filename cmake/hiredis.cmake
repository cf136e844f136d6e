# rlock_hiredis: hiredis >= 1.2 as a static archive, RLOCK_HIREDIS_ARCHIVE. It ends up inside librlock, its symbols hidden.
# Looked for in .deps/ (scripts/setup), then by pkg-config, then fetched from its repository.
add_library(rlock_hiredis INTERFACE)

set(own ${PROJECT_SOURCE_DIR}/.deps/hiredis)
pkg_check_modules(HIREDIS QUIET hiredis>=1.2)
if(EXISTS ${own}/lib/libhiredis.a)
    set(RLOCK_HIREDIS_ARCHIVE ${own}/lib/libhiredis.a)
    target_include_directories(rlock_hiredis SYSTEM INTERFACE ${own}/include)
elseif(HIREDIS_FOUND)
    find_library(RLOCK_HIREDIS_ARCHIVE libhiredis.a HINTS ${HIREDIS_LIBRARY_DIRS} ${HIREDIS_LIBDIR} REQUIRED)
    target_include_directories(rlock_hiredis SYSTEM INTERFACE ${HIREDIS_INCLUDEDIR})
else()
    # Below a directory of that name, so that <hiredis/read.h> is found as it is when installed; built by ourselves,
    # which is shorter than talking its own CMakeLists.txt into it.
    include(FetchContent)
    FetchContent_Declare(hiredis GIT_REPOSITORY https://github.com/redis/hiredis.git GIT_TAG v1.2.0 GIT_SHALLOW ON
        SOURCE_DIR ${PROJECT_BINARY_DIR}/_deps/include/hiredis SOURCE_SUBDIR none)
    FetchContent_MakeAvailable(hiredis)
    set(hiredis_files alloc.c async.c hiredis.c net.c read.c sds.c)
    list(TRANSFORM hiredis_files PREPEND ${hiredis_SOURCE_DIR}/)
    add_library(hiredis STATIC EXCLUDE_FROM_ALL ${hiredis_files})
    set_target_properties(hiredis PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    set(RLOCK_HIREDIS_ARCHIVE $<TARGET_FILE:hiredis>)
    add_dependencies(rlock_hiredis hiredis)
    target_include_directories(rlock_hiredis SYSTEM INTERFACE ${hiredis_SOURCE_DIR}/..)
endif()
target_link_libraries(rlock_hiredis INTERFACE ${RLOCK_HIREDIS_ARCHIVE})
