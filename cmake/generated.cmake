# The files that the build writes: include/rlock/version.h (public), where the module with TLS is, and the Lua scripts as C
# data (internal).
set(RLOCK_BUILD_INCLUDE ${PROJECT_BINARY_DIR}/include)
set(RLOCK_BUILD_GENERATED ${PROJECT_BINARY_DIR}/generated)
configure_file(cmake/version.h.in ${RLOCK_BUILD_INCLUDE}/rlock/version.h @ONLY)

set(RLOCK_SOVERSION ${PROJECT_VERSION_MAJOR}) # docs/abi.md
if(PROJECT_VERSION VERSION_LESS 1.0)
    set(RLOCK_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()
set(RLOCK_TLS_DIR rlock-${RLOCK_SOVERSION}) # so that those of two sonames can be installed
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR}
    OUTPUT_VARIABLE RLOCK_TLS_FROM_BIN)
configure_file(cmake/tls_place.h.in ${RLOCK_BUILD_GENERATED}/net/tls_place.h @ONLY)

set(RLOCK_GENERATED ${RLOCK_BUILD_GENERATED}/lua_scripts.c ${RLOCK_BUILD_GENERATED}/lua_scripts.h)
add_custom_command(
    OUTPUT ${RLOCK_GENERATED}
    COMMAND ${CMAKE_COMMAND} "-DSCRIPTS=${RLOCK_LUA}" -DROOT=${PROJECT_SOURCE_DIR}/lua -DOUT=${RLOCK_BUILD_GENERATED}
        -P ${PROJECT_SOURCE_DIR}/cmake/embed_lua.cmake
    DEPENDS ${RLOCK_LUA} cmake/embed_lua.cmake
    COMMENT "Embedding the Lua scripts"
    VERBATIM
)
add_custom_target(rlock_generated DEPENDS ${RLOCK_GENERATED})
