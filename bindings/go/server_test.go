// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	background = context.Background()
	quiet      = slog.New(slog.NewTextHandler(io.Discard, nil))
)

// A server of a test's own, on a unix socket.
type server struct {
	t       *testing.T
	socket  string
	url     string
	process *os.Process
}

func startServer(t *testing.T, options ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "rlock") // that of the test may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	process := startProcess(t, append([]string{"--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir}, options...)...)
	eventually(t, "the server starts", func() bool {
		connection, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	})
	return &server{t, socket, "unix://" + socket, process}
}

// startProcess starts a server program, which the end of the test kills.
func startProcess(t *testing.T, arguments ...string) *os.Process {
	t.Helper()
	program := os.Getenv("RLOCK_REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	command := exec.Command(program, arguments...)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = command.Process.Kill(), command.Wait() })
	return command.Process
}

// command sends one command, and returns the elements of its reply.
func (s *server) command(arguments ...string) []string {
	s.t.Helper()
	connection, err := net.Dial("unix", s.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprintf(connection, "*%d\r\n", len(arguments))
	for _, argument := range arguments {
		fmt.Fprintf(connection, "$%d\r\n%s\r\n", len(argument), argument)
	}
	reply, err := readReply(bufio.NewReader(connection))
	if err != nil {
		s.t.Fatal(arguments, err)
	}
	return reply
}

func readReply(in *bufio.Reader) (elements []string, err error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(line[1:], "\r\n")
	switch line[0] {
	case '*':
		n, _ := strconv.Atoi(text)
		for i := 0; i < n && err == nil; i++ {
			var inner []string
			inner, err = readReply(in)
			elements = append(elements, inner...)
		}
		return elements, err
	case '$':
		n, _ := strconv.Atoi(text)
		if n < 0 {
			return nil, nil
		}
		value := make([]byte, n+2)
		_, err = io.ReadFull(in, value)
		return []string{string(value[:n])}, err
	case '-':
		return nil, fmt.Errorf("%s", text)
	}
	return []string{text}, nil
}

// keys returns the names of all keys, in order.
func (s *server) keys() []string {
	keys := s.command("KEYS", "*")
	slices.Sort(keys)
	return keys
}

// left returns the keys that locks must not leave. Tokens stay, and for a minute the marks that keep a turn for readers.
func (s *server) left() []string {
	return slices.DeleteFunc(s.keys(), func(key string) bool {
		if strings.HasPrefix(key, "rlock_wait:") {
			entries := s.command("ZRANGE", key, "0", "-1")
			return !slices.ContainsFunc(entries, func(entry string) bool { return !strings.HasPrefix(entry, "~") })
		}
		return strings.Contains(key, "token")
	})
}

func (s *server) signal(signal syscall.Signal) {
	if err := s.process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// open opens a client that the end of the test closes. It is patient, for the machine may be busy.
func (s *server) open(options *Options) *Client {
	s.t.Helper()
	o := Options{}
	if options != nil {
		o = *options
	}
	if o.OpTimeout == 0 {
		o.OpTimeout = 10 * time.Second
	}
	client, err := Open(s.url, &o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// opened starts a server, and opens a client there with the defaults.
func opened(t *testing.T) *Client {
	t.Helper()
	return startServer(t).open(nil)
}

// must takes a lock that is free.
func must(t *testing.T, lock *Lock, options ...TakeOption) *Hold {
	t.Helper()
	hold, err := lock.Lock(background, append(options, Wait(10*time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// eventually waits until it is so, for ten seconds at most.
func eventually(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !isSo(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("this does not come: ", what)
		}
	}
}

// collected waits until it is so after the collector has run.
func collected(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	eventually(t, what, func() bool {
		runtime.GC()
		return isSo()
	})
}

func closed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func isFree(t *testing.T, lock *Lock) bool {
	t.Helper()
	info, err := lock.Inspect(background)
	if err != nil {
		t.Fatal(err)
	}
	return !info.Locked
}

func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}
