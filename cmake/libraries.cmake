# librlock.so and librlock.a, with nothing but rlock_* to be seen from outside: a bundled hiredis does not meet another
# one that the program links. The static library has TLS built in.
set(symbols ${PROJECT_SOURCE_DIR}/src/librlock.sym)
set(RLOCK_LIBRARIES rlock_static)

if(RLOCK_BUILD_SHARED)
    list(APPEND RLOCK_LIBRARIES rlock)
    add_library(rlock SHARED)
    add_library(rlock::rlock ALIAS rlock)
    rlock_options(rlock)
    rlock_link_inside(rlock)
    # A thread's end and a name server's late answer may come when nobody uses the library any more: it stays loaded.
    target_link_options(rlock PRIVATE -Wl,--version-script=${symbols} -Wl,--exclude-libs,ALL -Wl,-z,nodelete)
    if(NOT RLOCK_SANITIZE) # whose runtime is in the program
        target_link_options(rlock PRIVATE -Wl,-z,defs)
    endif()
    set_target_properties(rlock PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${RLOCK_SOVERSION} LINKER_LANGUAGE C
        LINK_DEPENDS ${symbols})
endif()

# An archive cannot hide what its members share, so it holds one relocatable object whose inner symbols are local.
set(bundle ${PROJECT_BINARY_DIR}/rlock_bundle.o)
add_custom_command(
    OUTPUT ${bundle}
    COMMAND ${CMAKE_LINKER} -r -o ${bundle} $<TARGET_OBJECTS:rlock_objects> $<TARGET_OBJECTS:rlock_tls>
        ${RLOCK_HIREDIS_ARCHIVE}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --keep-global-symbol=rlock_* ${bundle}
    DEPENDS rlock_objects $<TARGET_OBJECTS:rlock_objects> rlock_tls $<TARGET_OBJECTS:rlock_tls>
    COMMENT "Bundling the static library"
    COMMAND_EXPAND_LISTS
    VERBATIM
)
add_library(rlock_static STATIC ${bundle})
add_library(rlock::rlock_static ALIAS rlock_static)
set_target_properties(rlock_static PROPERTIES OUTPUT_NAME rlock LINKER_LANGUAGE C)
target_link_libraries(rlock_static PRIVATE ${RLOCK_HIREDIS_LIBRARY} OpenSSL::SSL OpenSSL::Crypto PkgConfig::UUID
    Threads::Threads)

if(NOT TARGET rlock::rlock)
    add_library(rlock::rlock ALIAS rlock_static)
endif()

foreach(library IN LISTS RLOCK_LIBRARIES)
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${RLOCK_BUILD_INCLUDE}>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
