# The files that the build writes: include/rlock/version.h (public), and the Lua scripts as C data (internal).
set(RLOCK_BUILD_INCLUDE ${PROJECT_BINARY_DIR}/include)
set(RLOCK_BUILD_GENERATED ${PROJECT_BINARY_DIR}/generated)
configure_file(cmake/version.h.in ${RLOCK_BUILD_INCLUDE}/rlock/version.h @ONLY)

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
