// SPDX-License-Identifier: Apache-2.0

package rlock

// #include "glue.h"
import "C"

import (
	"context"
	"log/slog"
	"runtime/cgo"
	"unsafe"
)

// levels has the levels of the log, the most important first.
var levels = []struct {
	c    C.int
	slog slog.Level
}{
	{C.RLOCK_LOG_ERROR, slog.LevelError}, {C.RLOCK_LOG_WARNING, slog.LevelWarn},
	{C.RLOCK_LOG_INFO, slog.LevelInfo}, {C.RLOCK_LOG_DEBUG, slog.LevelDebug},
}

// leastImportant returns the level that the library must log, so that the logger gets all that it has enabled.
func leastImportant(log *slog.Logger) C.int {
	level := levels[0].c
	for _, l := range levels {
		if log.Enabled(context.Background(), l.slog) {
			level = l.c
		}
	}
	return level
}

func clientOf(payload C.uintptr_t) *Client { return cgo.Handle(payload).Value().(*Client) }

//export rlockLogLine
func rlockLogLine(line *C.glue_const_line, payload C.uintptr_t) {
	c, level := clientOf(payload), slog.LevelDebug
	for _, l := range levels {
		if l.c == line.level {
			level = l.slog
		}
	}
	attributes := []slog.Attr{slog.String("subject", C.GoString(line.subject))}
	if server := C.GoString(line.server); server != "" {
		attributes = append(attributes, slog.String("server", server))
	}
	if line.code != 0 {
		attributes = append(attributes, slog.String("code", C.GoString(C.rlock_code_name(line.code))))
	}
	c.log.LogAttrs(context.Background(), level, C.GoString(line.text), attributes...)
}

//export rlockAddress
func rlockAddress(address *C.struct_rlock_address, payload C.uintptr_t) {
	c := clientOf(payload)
	was := Address{C.GoString(&address.host[0]), int(address.port), address.is_sentinel != 0}
	is := c.options.Address(was)
	room := unsafe.Slice((*byte)(unsafe.Pointer(&address.host[0])), len(address.host))
	if len(is.Host) >= len(room) || is.Port < 0 {
		c.log.Error("Options.Address returned an address that is not valid", "host", is.Host, "port", is.Port)
		return
	}
	room[copy(room, is.Host)] = 0
	address.port = C.uint(is.Port)
}

//export rlockLogin
func rlockLogin(login *C.struct_rlock_login, payload C.uintptr_t) C.int {
	c, server := clientOf(payload), C.GoString(C.rlock_login_server(login))
	user, password, err := c.options.Login(server, bool(C.rlock_login_is_sentinel(login)))
	if err != nil {
		c.log.Error("Options.Login failed", "server", server, "error", err)
		return C.RLOCK_EAUTH
	}
	return C.glue_login_set(login, optional(user), optional(password))
}

func optional(s string) *C.char {
	if s == "" {
		return nil
	}
	return C.CString(s)
}
