# The files that rlock consists of, listed once. scripts/check fails on a file that is missing here.
set(RLOCK_SOURCES
    src/base/bytes.c
    src/base/error.c
    src/base/flight.c
    src/base/timer.c
    src/client/ask.c
    src/client/cancel.c
    src/client/composite.c
    src/client/composite_new.c
    src/client/diagnose.c
    src/client/dispatch.c
    src/client/drive.c
    src/client/lock.c
    src/client/open.c
    src/client/process.c
    src/client/query.c
    src/client/scan.c
    src/client/service.c
    src/client/turn.c
    src/client/uri.c
    src/fair/fair.c
    src/lock/acquire.c
    src/lock/acquire_end.c
    src/lock/acquire_wait.c
    src/lock/call.c
    src/lock/classify.c
    src/lock/command.c
    src/lock/core.c
    src/lock/fenced.c
    src/lock/hold.c
    src/lock/look.c
    src/lock/nonreentrant.c
    src/lock/orphan.c
    src/lock/place.c
    src/lock/plain.c
    src/lock/reentrant.c
    src/lock/release.c
    src/lock/renew.c
    src/lock/spec.c
    src/lock/spin.c
    src/lock/team.c
    src/multi/composite.c
    src/multi/multi.c
    src/multi/party.c
    src/multi/wish.c
    src/net/conn.c
    src/net/connect.c
    src/net/hello.c
    src/net/resolve.c
    src/net/resp.c
    src/net/session.c
    src/net/sock.c
    src/net/tls.c
    src/redlock/redlock.c
    src/rw/read.c
    src/rw/rw.c
    src/rw/write.c
)

set(RLOCK_LUA
    lua/fair/acquire.lua
    lua/fair/force.lua
    lua/fair/inspect.lua
    lua/fair/release.lua
    lua/fenced/acquire.lua
    lua/multi/acquire.lua
    lua/plain/acquire.lua
    lua/plain/force.lua
    lua/plain/inspect.lua
    lua/plain/release.lua
    lua/plain/renew.lua
    lua/rw/force.lua
    lua/rw/inspect.lua
    lua/rw/read_acquire.lua
    lua/rw/read_release.lua
    lua/rw/read_renew.lua
    lua/rw/write_acquire.lua
    lua/rw/write_release.lua
)

set(RLOCK_CLI_SOURCES
    cli/child.c
    cli/client.c
    cli/doctor.c
    cli/duration.c
    cli/find.c
    cli/ls.c
    cli/main.c
    cli/options.c
    cli/query.c
    cli/run.c
    cli/say.c
    cli/secret.c
    cli/show.c
    cli/signals.c
    cli/team.c
    cli/terminal.c
    cli/text.c
    cli/watch.c
)

# One program per file, and what else it is made of.
set(RLOCK_EXAMPLES
    examples/orders.c
    examples/redlock.c
)
set(RLOCK_EXAMPLE_orders
    examples/orders/server.c
    examples/orders/worker.c
)

foreach(list IN ITEMS RLOCK_SOURCES RLOCK_LUA RLOCK_CLI_SOURCES RLOCK_EXAMPLES)
    set(present "")
    foreach(file IN LISTS ${list})
        if(EXISTS ${PROJECT_SOURCE_DIR}/${file})
            list(APPEND present ${PROJECT_SOURCE_DIR}/${file})
        else()
            message(STATUS "not there yet: ${file}")
        endif()
    endforeach()
    set(${list} ${present})
endforeach()
