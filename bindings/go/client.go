// SPDX-License-Identifier: Apache-2.0

package rlock

// #cgo pkg-config: rlock
// #include "glue.h"
import "C"

import (
	"log/slog"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"
)

// Values of Options.Acks.
const (
	AcksAuto = C.RLOCK_ACKS_AUTO // every replica that a failover may promote
	AcksOff  = C.RLOCK_ACKS_OFF  // no replica
	AcksAll  = C.RLOCK_ACKS_ALL  // every replica
)

// Options of a client. The zero value of each selects its default. The comments of struct rlock_client_opts and its flags,
// in rlock.h, say more about each.
type Options struct {
	ConnectTimeout time.Duration // time for the whole handshake with the server
	OpTimeout      time.Duration // time for the server's answers, in each call
	RenewedLease   time.Duration // lease of a renewed hold; 30 s by default
	SafetyMargin   time.Duration // a hold's validity ends this much earlier
	KeyPrefix      string        // the Redis key is this prefix and the name

	User, Password                 string // override those of the URL
	SentinelUser, SentinelPassword string
	CAFile, CertFile, KeyFile      string // PEM files, for TLS
	SentinelTLS, SentinelPlain     bool   // with or without TLS to the Sentinels; by default as the URL says

	Acks         int  // replicas that must confirm a grant: a number, AcksAuto, AcksOff or AcksAll
	AcksOnDisk   bool // a grant counts only when it is on disk
	NoPass       bool // each unlock releases the lock on the server, even if a call of this client waits for it
	AnnounceBoth bool // in a cluster, wake Redisson clients before 3.22 too

	// OnLost receives each lost hold once, in a goroutine of its own. It may call every function. Hold.Lost and
	// Hold.Context report a loss as well.
	OnLost func(Loss)

	// Login gives user and password at each connection; an empty string: as the options say. After an error the connection
	// fails with ErrAuth, and the client tries again. It must neither wait nor call this package: keep the newest password
	// at hand. Several threads may call it at the same time.
	Login func(server string, isSentinel bool) (user, password string, err error)

	// Address rewrites the address of a server to one that this client can reach, for example behind NAT. It must neither
	// wait nor call this package.
	Address func(Address) Address

	// OnTrace receives each call that asked a server, once, before the call returns. It runs on a thread of the client, which
	// completes no other call meanwhile. Therefore it must neither wait nor call this package: send the Trace to a channel
	// with room, or start a goroutine, if more is to be done. Several threads may call it at the same time. The end of a
	// context does not end the request of Inspect or ForceUnlock: then their Trace comes after the call has returned.
	OnTrace func(Trace)

	// Logger receives the library's log, with the attributes "subject", "server" and "code", and a warning about each hold
	// that the program dropped. Open finds out which levels the logger has enabled. nil: warnings and errors go to
	// slog.Default(). The handler must not call this package.
	Logger *slog.Logger
}

// Address is the address of a server.
type Address struct {
	Host       string // at most 255 bytes
	Port       int
	IsSentinel bool
}

// Client is this process's handle on one deployment, with threads and connections of its own. It lives until Close. All
// goroutines may share it.
type Client struct {
	mu      sync.RWMutex // guards client: nobody may use it once it is being closed
	client  *C.struct_rlock_client
	payload cgo.Handle // of this client, for its callbacks
	uuid    string
	options Options
	log     *slog.Logger
}

// Open opens a client. It does not wait for the server: if the server is down, the first call fails. The URL selects a
// server (redis:, rediss:, unix:), a cluster (redis+cluster:) or Sentinels (redis+sentinel:); rlock.h has the forms.
// options: nil for all defaults.
func Open(url string, options *Options) (*Client, error) {
	c := &Client{}
	if options != nil {
		c.options = *options
	}
	opts, free := c.options.c(url)
	defer free()
	if c.log = c.options.Logger; c.log == nil {
		c.log = slog.Default()
	} else {
		opts.log_level = leastImportant(c.log)
	}
	c.payload = cgo.NewHandle(c)
	if c.options.OnTrace != nil {
		tracers.Store(c.payload, c.options.OnTrace)
	}
	var client *C.struct_rlock_client
	err := call(func(failure **C.struct_rlock_failure) C.int {
		return C.glue_open(opts, 1, truth(c.options.Address != nil), truth(c.options.Login != nil), truth(c.options.OnTrace != nil),
			C.uintptr_t(c.payload), &client, failure)
	})
	if err != nil {
		c.forget()
		return nil, err
	}
	c.client, c.uuid = client, C.GoString(C.rlock_client_uuid(client))
	return c, nil
}

// c makes the options of C. They are in C's memory until free.
func (o *Options) c(url string) (opts *C.struct_rlock_client_opts, free func()) {
	var strings []*C.char
	text := func(s string) *C.char {
		if s == "" {
			return nil
		}
		strings = append(strings, C.CString(s))
		return strings[len(strings)-1]
	}
	opts = (*C.struct_rlock_client_opts)(C.malloc(C.sizeof_struct_rlock_client_opts))
	C.rlock_init(unsafe.Pointer(opts), C.sizeof_struct_rlock_client_opts)
	opts.url, opts.key_prefix = text(url), text(o.KeyPrefix)
	opts.connect_timeout_ms, opts.op_timeout_ms = milliseconds(o.ConnectTimeout), milliseconds(o.OpTimeout)
	opts.renewed_lease_ms, opts.safety_margin_ms = milliseconds(o.RenewedLease), milliseconds(o.SafetyMargin)
	opts.user, opts.password = text(o.User), text(o.Password)
	opts.sentinel_user, opts.sentinel_password = text(o.SentinelUser), text(o.SentinelPassword)
	opts.ca_file, opts.cert_file, opts.key_file = text(o.CAFile), text(o.CertFile), text(o.KeyFile)
	opts.acks = C.int(o.Acks)
	for _, flag := range []struct {
		isSet bool
		bit   C.uint64_t
	}{
		{o.NoPass, C.RLOCK_CLIENT_NO_PASS}, {o.AcksOnDisk, C.RLOCK_CLIENT_ACKS_ON_DISK},
		{o.AnnounceBoth, C.RLOCK_CLIENT_ANNOUNCE_BOTH}, {o.SentinelTLS, C.RLOCK_CLIENT_SENTINEL_TLS},
		{o.SentinelPlain, C.RLOCK_CLIENT_SENTINEL_PLAIN},
	} {
		if flag.isSet {
			opts.flags |= flag.bit
		}
	}
	return opts, func() {
		for _, s := range strings {
			C.free(unsafe.Pointer(s))
		}
		C.free(unsafe.Pointer(opts))
	}
}

func truth(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Close closes the client. It releases the client's holds and reports them as lost (LostClosed), ends all waits with
// ErrClosed, and waits for the server's answers for at most Options.OpTimeout. Closing it again does nothing. It fails only
// in a callback that must not call this package (ErrDeadlock).
func (c *Client) Close() error {
	c.mu.Lock()
	client := c.client
	c.client = nil
	c.mu.Unlock()
	if client == nil {
		return nil
	}
	if C.rlock_client_close(client) != nil {
		c.mu.Lock()
		c.client = client
		c.mu.Unlock()
		return &Error{Code: ErrDeadlock, Detail: "a callback cannot close its client", FreeIn: -1}
	}
	c.forget()
	return nil
}

// forget ends the callbacks.
func (c *Client) forget() {
	tracers.Delete(c.payload)
	c.payload.Delete()
}

// UUID returns the client's UUID. On the server the name of each of its holders begins with it.
func (c *Client) UUID() string { return c.uuid }

// open runs a function with the client, or returns ErrClosed. The function must not wait.
func (c *Client) open(function func(client *C.struct_rlock_client) error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.client == nil {
		return &Error{Code: ErrClosed, FreeIn: -1}
	}
	return function(c.client)
}
