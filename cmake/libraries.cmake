# librlock.so and librlock.a, both with hiredis inside and nothing but rlock_* to be seen from outside: a program may
# link another hiredis.
set(symbols ${PROJECT_SOURCE_DIR}/src/librlock.sym)

add_library(rlock SHARED)
add_library(rlock::rlock ALIAS rlock)
rlock_options(rlock)
target_link_libraries(rlock PRIVATE rlock_objects)
# A thread's end and a name server's late answer may come when nobody uses the library any more: it stays loaded.
target_link_options(rlock PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,nodelete)
if(NOT RLOCK_SANITIZE) # whose runtime is in the program
    target_link_options(rlock PRIVATE -Wl,-z,defs)
endif()
set_target_properties(rlock PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE C)
if(EXISTS ${symbols})
    target_link_options(rlock PRIVATE -Wl,--version-script=${symbols})
    set_target_properties(rlock PROPERTIES LINK_DEPENDS ${symbols})
endif()

# An archive cannot hide what its members share, so it holds one relocatable object whose inner symbols are local.
set(bundle ${PROJECT_BINARY_DIR}/rlock_bundle.o)
add_custom_command(
    OUTPUT ${bundle}
    COMMAND ${CMAKE_LINKER} -r -o ${bundle} $<TARGET_OBJECTS:rlock_objects> ${RLOCK_HIREDIS_ARCHIVE}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --keep-global-symbol=rlock_* ${bundle}
    DEPENDS rlock_objects $<TARGET_OBJECTS:rlock_objects>
    COMMENT "Bundling the static library"
    COMMAND_EXPAND_LISTS
    VERBATIM
)
add_library(rlock_static STATIC ${bundle})
add_library(rlock::rlock_static ALIAS rlock_static)
set_target_properties(rlock_static PROPERTIES OUTPUT_NAME rlock LINKER_LANGUAGE C)
target_link_libraries(rlock_static PRIVATE OpenSSL::SSL OpenSSL::Crypto ${UUID_LIBRARIES} Threads::Threads)

foreach(library IN ITEMS rlock rlock_static)
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${RLOCK_BUILD_INCLUDE}>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
