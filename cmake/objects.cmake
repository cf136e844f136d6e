# What the libraries, the command and the tests are made of. Every object is compiled once. Without LTO: what makes the
# static library's one object of them knows machine code alone.
#
#   rlock_objects   all but TLS
#   rlock_tls       TLS, which alone knows OpenSSL, and that it is built in
#   rlock_unchecked the first of these without assertions, as they are installed: for the tests and measurements of that
function(rlock_object_library name)
    add_library(${name} OBJECT ${ARGN})
    rlock_options(${name})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden
        INTERPROCEDURAL_OPTIMIZATION OFF)
    target_compile_options(${name} PRIVATE -fno-lto)
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
        ${RLOCK_BUILD_INCLUDE} ${RLOCK_BUILD_GENERATED})
endfunction()

rlock_object_library(rlock_objects ${RLOCK_SOURCES} ${RLOCK_GENERATED})
add_dependencies(rlock_objects rlock_generated)
target_link_libraries(rlock_objects PUBLIC rlock_hiredis PkgConfig::UUID Threads::Threads)
rlock_object_library(rlock_unchecked EXCLUDE_FROM_ALL ${RLOCK_SOURCES} ${RLOCK_GENERATED})
target_compile_definitions(rlock_unchecked PRIVATE NDEBUG)
set_target_properties(rlock_unchecked PROPERTIES EXPORT_COMPILE_COMMANDS OFF) # clang-tidy reads each file once
add_dependencies(rlock_unchecked rlock_generated)
target_link_libraries(rlock_unchecked PUBLIC rlock_hiredis PkgConfig::UUID Threads::Threads)
rlock_object_library(rlock_tls ${RLOCK_TLS_SOURCES})
target_link_libraries(rlock_tls PUBLIC OpenSSL::SSL OpenSSL::Crypto)

# The module. In the build's directory it stands as it does where it is installed: in a directory beside the library.
if(RLOCK_TLS_MODULE)
    set(beside ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
    if(NOT beside)
        set(beside ${PROJECT_BINARY_DIR})
    endif()
    add_library(rlock_tls_module MODULE ${RLOCK_TLS_MODULE_SOURCES})
    rlock_options(rlock_tls_module)
    target_link_libraries(rlock_tls_module PRIVATE rlock_tls)
    set_target_properties(rlock_tls_module PROPERTIES PREFIX "" OUTPUT_NAME tls SUFFIX .so NO_SONAME ON C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY ${beside}/${RLOCK_TLS_DIR})
    if(NOT RLOCK_SANITIZE)
        target_link_options(rlock_tls_module PRIVATE -Wl,-z,defs)
    endif()
endif()

# rlock_link_inside(<target> [definition...]): makes the library a part of the target, with TLS as the builder wants it.
function(rlock_link_inside target)
    target_link_libraries(${target} PRIVATE rlock_objects)
    if(NOT RLOCK_TLS_MODULE)
        target_link_libraries(${target} PRIVATE rlock_tls)
        return()
    endif()
    target_sources(${target} PRIVATE ${RLOCK_TLS_LOAD_SOURCES})
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden)
    target_compile_definitions(${target} PRIVATE ${ARGN})
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
    add_dependencies(${target} rlock_tls_module)
endfunction()
