# rlock_hiredis: hiredis >= 1.2, of which the protocol's reader and writer are used. RLOCK_HIREDIS says from where:
#
#   bundled   a static archive, of .deps/ (scripts/setup) or found by pkg-config: it ends up inside librlock, its symbols hidden
#   system    the shared library that pkg-config finds: librlock needs it where it runs
#   fetched   as bundled, the archive made of its repository
#
# By default the first of these that can be had.
set(RLOCK_HIREDIS "" CACHE STRING "Where hiredis comes from: bundled, system or fetched; default: the first that can be had")
set_property(CACHE RLOCK_HIREDIS PROPERTY STRINGS "" bundled system fetched)
add_library(rlock_hiredis INTERFACE)

pkg_check_modules(RLOCK_HIREDIS_PC QUIET hiredis>=1.2)
set(own ${PROJECT_SOURCE_DIR}/.deps/hiredis)
if(EXISTS ${own}/lib/libhiredis.a)
    set(hiredis_archive ${own}/lib/libhiredis.a)
    set(hiredis_include ${own}/include)
elseif(RLOCK_HIREDIS_PC_FOUND)
    find_library(hiredis_archive libhiredis.a HINTS ${RLOCK_HIREDIS_PC_LIBDIR} NO_DEFAULT_PATH NO_CACHE)
    set(hiredis_include ${RLOCK_HIREDIS_PC_INCLUDEDIR})
endif()

set(RLOCK_HIREDIS_FROM ${RLOCK_HIREDIS})
if(NOT RLOCK_HIREDIS_FROM AND hiredis_archive)
    set(RLOCK_HIREDIS_FROM bundled)
elseif(NOT RLOCK_HIREDIS_FROM AND RLOCK_HIREDIS_PC_FOUND)
    set(RLOCK_HIREDIS_FROM system)
elseif(NOT RLOCK_HIREDIS_FROM)
    set(RLOCK_HIREDIS_FROM fetched)
endif()
message(STATUS "hiredis: ${RLOCK_HIREDIS_FROM}")

# RLOCK_HIREDIS_ARCHIVE is what goes into librlock, RLOCK_HIREDIS_LIBRARY what is linked beside it: one of them is empty.
if(RLOCK_HIREDIS_FROM STREQUAL "bundled" AND hiredis_archive)
    set(RLOCK_HIREDIS_ARCHIVE ${hiredis_archive})
elseif(RLOCK_HIREDIS_FROM STREQUAL "system" AND RLOCK_HIREDIS_PC_FOUND)
    set(RLOCK_HIREDIS_LIBRARY ${RLOCK_HIREDIS_PC_LINK_LIBRARIES})
    set(hiredis_include ${RLOCK_HIREDIS_PC_INCLUDEDIR})
elseif(RLOCK_HIREDIS_FROM STREQUAL "fetched")
    # Below a directory of that name, so that <hiredis/read.h> is found as it is when installed; built by ourselves,
    # which is shorter than talking its own CMakeLists.txt into it.
    include(FetchContent)
    FetchContent_Declare(rlock_hiredis_source
        GIT_REPOSITORY https://github.com/redis/hiredis.git GIT_TAG v1.2.0 GIT_SHALLOW ON
        SOURCE_DIR ${PROJECT_BINARY_DIR}/_deps/include/hiredis SOURCE_SUBDIR none)
    FetchContent_MakeAvailable(rlock_hiredis_source)
    set(hiredis_files alloc.c async.c hiredis.c net.c read.c sds.c)
    list(TRANSFORM hiredis_files PREPEND ${rlock_hiredis_source_SOURCE_DIR}/)
    add_library(rlock_hiredis_archive STATIC EXCLUDE_FROM_ALL ${hiredis_files})
    set_target_properties(rlock_hiredis_archive PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    target_compile_options(rlock_hiredis_archive PRIVATE -fno-lto)
    set(RLOCK_HIREDIS_ARCHIVE $<TARGET_FILE:rlock_hiredis_archive>)
    add_dependencies(rlock_hiredis rlock_hiredis_archive)
    set(hiredis_include ${rlock_hiredis_source_SOURCE_DIR}/..)
else()
    message(FATAL_ERROR "RLOCK_HIREDIS is ${RLOCK_HIREDIS_FROM}, but there is no hiredis >= 1.2 of that sort")
endif()
target_include_directories(rlock_hiredis SYSTEM INTERFACE ${hiredis_include})
target_link_libraries(rlock_hiredis INTERFACE ${RLOCK_HIREDIS_ARCHIVE} ${RLOCK_HIREDIS_LIBRARY})
