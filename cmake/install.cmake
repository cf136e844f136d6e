# Installation: libraries, headers, command, man page, the CMake package rlock::rlock and the pkg-config file.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/rlock)

install(TARGETS rlock_static EXPORT rlock_static)
install(DIRECTORY include/rlock ${RLOCK_BUILD_INCLUDE}/rlock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN *.h PATTERN *.hpp)
if(RLOCK_BUILD_CLI)
    install(TARGETS rlock_cli)
    install(FILES docs/rlock.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES cli/completion/rlock.bash RENAME rlock
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES cli/completion/_rlock DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

if(RLOCK_TLS_MODULE)
    install(TARGETS rlock_tls_module DESTINATION ${CMAKE_INSTALL_LIBDIR}/${RLOCK_TLS_DIR})
endif()

# Two export sets: a program that links the static library needs the development files of OpenSSL and libuuid.
if(RLOCK_BUILD_SHARED)
    install(TARGETS rlock EXPORT rlock)
    install(EXPORT rlock NAMESPACE rlock:: FILE rlockTargets.cmake DESTINATION ${package})
endif()
install(EXPORT rlock_static NAMESPACE rlock:: FILE rlockStaticTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/rlockConfig.cmake.in rlockConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(rlockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rlockConfig.cmake ${PROJECT_BINARY_DIR}/rlockConfigVersion.cmake
    DESTINATION ${package})

cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE up)
set(private libssl libcrypto uuid)
if(RLOCK_HIREDIS_LIBRARY)
    list(APPEND private hiredis)
endif()
list(JOIN private " " private)
configure_file(cmake/rlock.pc.in rlock.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rlock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
