# Installation: libraries, headers, command, man page, the CMake package rlock::rlock and the pkg-config file.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/rlock)

install(TARGETS rlock EXPORT rlock)
install(TARGETS rlock_static EXPORT rlock_static)
install(DIRECTORY include/rlock ${RLOCK_BUILD_INCLUDE}/rlock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN *.h PATTERN *.hpp)
if(TARGET rlock_cli)
    install(TARGETS rlock_cli)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/docs/rlock.1)
    install(FILES docs/rlock.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# Two export sets: only who links the static library needs the development files of OpenSSL and libuuid.
install(EXPORT rlock NAMESPACE rlock:: FILE rlockTargets.cmake DESTINATION ${package})
install(EXPORT rlock_static NAMESPACE rlock:: FILE rlockStaticTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/rlockConfig.cmake.in rlockConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(rlockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rlockConfig.cmake ${PROJECT_BINARY_DIR}/rlockConfigVersion.cmake
    DESTINATION ${package})

cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE up)
configure_file(cmake/rlock.pc.in rlock.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rlock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
