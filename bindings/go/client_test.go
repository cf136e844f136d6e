// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestClosingEndsWaitsAndHolds(t *testing.T) {
	losses := make(chan Loss, 10)
	server := startServer(t)
	client, other := server.open(lossesOf(losses)), server.open(nil)
	taken, wanted := client.Reentrant("a"), client.Reentrant("b")
	hold, blocker := must(t, taken), must(t, other.Reentrant("b"))
	began, ended := make(chan struct{}), make(chan error)
	for range 10 {
		go func() {
			began <- struct{}{}
			_, err := wanted.Lock(background)
			ended <- err
		}()
		<-began
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	<-hold.Lost()
	if loss := <-losses; loss.Name != "a" || loss.Reason != LostClosed || hold.Valid() {
		t.Error(loss)
	}
	if !isFree(t, other.Reentrant("a")) {
		t.Error("it is not released")
	}
	_, taking := taken.TryLock(background)
	for what, err := range map[string]error{
		"unlock": hold.Unlock(), "take": taking, "extend": hold.Extend(time.Second), "new": client.Fair("c").Err(),
	} {
		if !errors.Is(err, ErrClosed) && !(what == "extend" && errors.Is(err, ErrNotOwner)) {
			t.Error(what, err)
		}
	}
	if client.Close() != nil || blocker.Unlock() != nil || client.UUID() == other.UUID() {
		t.Error("again")
	}
}

func TestAClientThatCannotBeOpenedIsNil(t *testing.T) {
	for options, expected := range map[*Options]Code{
		{SentinelTLS: true, SentinelPlain: true}: ErrInvalid,
		{RenewedLease: time.Millisecond}:         ErrInvalid,
		{OpTimeout: -1}:                          ErrInvalid,
		{ConnectTimeout: -1}:                     ErrInvalid,
		{SafetyMargin: time.Hour}:                ErrInvalid,
		{Acks: AcksAll}:                          ErrInvalid,
		{CertFile: "/nowhere", KeyFile: "/nowhere", Acks: AcksOff}:     ErrTLS,
		{CAFile: "/nowhere", SentinelUser: "u", SentinelPassword: "p"}: ErrTLS,
	} {
		url := "rediss://localhost"
		if options.SentinelTLS {
			url = "redis+sentinel://localhost/name"
		}
		client, err := Open(url, options)
		if client != nil || !errors.Is(err, expected) {
			t.Error(options, client, err)
		}
	}
	if client, err := Open("http://localhost", nil); client != nil || !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "a URL begins with") {
		t.Error(client, err)
	}
}

func TestOptionsOfClientsReachTheLibrary(t *testing.T) {
	server := startServer(t, "--requirepass", "secret")
	var asked atomic.Int32
	client := server.open(&Options{
		KeyPrefix: "my:", Acks: AcksOff, NoPass: true, AnnounceBoth: true, ConnectTimeout: time.Second, OpTimeout: 5 * time.Second,
		RenewedLease: 20 * time.Second, SafetyMargin: 5 * time.Second, User: "nobody", Password: "wrong",
		Login: func(server string, isSentinel bool) (user, password string, err error) {
			if asked.Add(1) == 1 {
				return "", "", errors.New("not yet")
			}
			return "default", "secret", nil
		},
		Logger: quiet,
	})
	hold, err := client.Reentrant("a").Lock(background, Wait(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if asked.Load() < 2 || hold.ValidFor() > 15*time.Second || hold.ValidFor() < 10*time.Second {
		t.Error(asked.Load(), hold.ValidFor())
	}
	plain, err := Open(server.url, &Options{Password: "secret", KeyPrefix: "my:"})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := plain.Reentrant("a").Inspect(background); err != nil || !info.Locked || info.Mine {
		t.Error(info, err)
	}
	if plain.Close() != nil || hold.Unlock() != nil {
		t.Error("the end")
	}
	strict := startServer(t).open(&Options{Acks: 1})
	if hold, err := strict.Reentrant("a").TryLock(background); hold != nil || !errors.Is(err, ErrNotReplicated) {
		t.Error(hold, err)
	}
	disk := startServer(t).open(&Options{AcksOnDisk: true})
	if hold, err := disk.Reentrant("a").TryLock(background); hold != nil || err == nil {
		t.Error("the server keeps nothing on a disk", hold)
	}
}

// freePort returns a TCP port that nobody has.
func freePort(t *testing.T) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func TestAddressLeadsToAClusterByAnotherName(t *testing.T) {
	port := freePort(t)
	server := startServer(t, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes")
	server.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, "the cluster", func() bool {
		return strings.Contains(server.command("CLUSTER", "INFO")[0], "cluster_state:ok")
	})
	client, err := Open("redis+cluster://far.away:7", &Options{Address: func(address Address) Address {
		if address.IsSentinel || address.Host != "far.away" || address.Port != 7 && address.Port != port {
			t.Error(address)
		}
		return Address{Host: "127.0.0.1", Port: port}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	hold, err := client.Fenced("a").Lock(background, Wait(10*time.Second))
	if err != nil || hold.Token() == 0 || hold.Unlock() != nil {
		t.Error(hold, err)
	}
}

func TestSentinelsLeadToThePrimary(t *testing.T) {
	port, at := freePort(t), freePort(t)
	startServer(t, "--port", strconv.Itoa(port), "--bind", "127.0.0.1")
	config := t.TempDir() + "/sentinel.conf"
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor name 127.0.0.1 %d 1\nrequirepass p\n", at, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startProcess(t, config, "--sentinel")
	client, err := Open(fmt.Sprintf("redis+sentinel://127.0.0.1:%d/name", at), &Options{SentinelPassword: "p", SentinelPlain: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	hold, err := client.Reentrant("a").Lock(background, Wait(20*time.Second))
	if err != nil || hold.Unlock() != nil {
		t.Error(hold, err)
	}
}

func TestTLSFilesOpenAConnection(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	cert, key := dir+"/cert.pem", dir+"/key.pem"
	err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-keyout", key, "-out", cert, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1").Run()
	if err != nil {
		t.Fatal("openssl: ", err)
	}
	startServer(t, "--tls-port", strconv.Itoa(port), "--bind", "127.0.0.1", "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "yes")
	for expected, options := range map[error]*Options{
		nil: {CAFile: cert, CertFile: cert, KeyFile: key}, ErrTLS: {CertFile: cert, KeyFile: key}, // no CA file: the authority is unknown
	} {
		options.OpTimeout, options.Logger = 10*time.Second, quiet
		client, err := Open(fmt.Sprintf("rediss://127.0.0.1:%d", port), options)
		if err != nil {
			t.Fatal(err)
		}
		hold, err := client.Reentrant("a").TryLock(background)
		if !errors.Is(err, expected) {
			t.Error(expected, hold, err)
		}
		if err == nil && hold.Unlock() != nil {
			t.Error("the unlock")
		}
		_ = client.Close()
	}
}

// A handler that keeps what the library logs.
type records struct {
	level slog.Level
	all   chan slog.Record
}

func (r records) Enabled(_ context.Context, level slog.Level) bool { return level >= r.level }
func (r records) WithAttrs([]slog.Attr) slog.Handler               { return r }
func (r records) WithGroup(string) slog.Handler                    { return r }
func (r records) Handle(_ context.Context, record slog.Record) error {
	r.all <- record
	return nil
}

func TestTheLogGoesToTheLogger(t *testing.T) {
	server := startServer(t)
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		log := records{level, make(chan slog.Record, 1000)}
		client := server.open(&Options{Logger: slog.New(log)})
		lock := client.Reentrant("a")
		hold := must(t, lock)
		if _, err := lock.ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		<-hold.Lost()
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		close(log.all)
		seen := map[slog.Level]bool{}
		for record := range log.all {
			seen[record.Level] = true
			attributes := map[string]string{}
			record.Attrs(func(a slog.Attr) bool { attributes[a.Key] = a.Value.String(); return true })
			if attributes["subject"] == "lost" &&
				(attributes["server"] != server.url || attributes["code"] != "ELOST" || !strings.Contains(record.Message, "lock a: lost: forced")) {
				t.Error(record)
			}
		}
		for wanted := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: true, slog.LevelWarn: true} {
			if seen[wanted] != (wanted >= level) {
				t.Error("at level ", level, " there are lines of ", seen)
			}
		}
	}
}

func TestEachFailureIsAnErrorOfItsCode(t *testing.T) {
	server := startServer(t)
	client := server.open(&Options{OpTimeout: time.Second})
	server.command("SET", "text", "x")
	server.command("ACL", "SETUSER", "weak", "on", ">p", "~*", "+@connection")
	hold := must(t, client.Read("rw"))
	open := func(options *Options) *Lock { return server.open(options).Reentrant("a") }
	nowhere, err := Open("unix:///nowhere", &Options{OpTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	try := func(lock *Lock, options ...TakeOption) error {
		hold, err := lock.TryLock(background, options...)
		if (hold == nil) == (err == nil) {
			t.Error(hold, err)
		}
		return err
	}
	other := must(t, server.open(nil).Reentrant("busy"))
	for expected, err := range map[Code]error{
		ErrBusy: try(client.Reentrant("busy")), ErrNoConnection: try(nowhere.Reentrant("a")), ErrWrongType: try(client.Reentrant("text")),
		ErrDeadlock: try(client.Write("rw"), Owner(hold)), ErrAuth: try(open(&Options{User: "weak", Password: "q"})),
		ErrPermission: try(open(&Options{User: "weak", Password: "p"})), ErrInvalid: try(client.Fair("rw"), Owner(hold)),
		ErrNotSupported: try(RedLock([]*Lock{client.Fenced("f")})),
	} {
		var failure *Error
		if !errors.As(err, &failure) || failure.Code != expected || !errors.Is(err, expected) || errors.Is(err, ErrCanceled) ||
			failure.Detail == "" || !strings.Contains(err.Error(), failure.Detail) || !strings.Contains(err.Error(), expected.Error()) {
			t.Error(expected, err)
		}
		if expected == ErrBusy && (failure.Server != server.url || failure.Holder == "" || failure.FreeIn <= 0 || failure.FreeIn > 30*time.Second) {
			t.Errorf("%+v", failure)
		}
		if expected == ErrInvalid && failure.FreeIn >= 0 {
			t.Errorf("%+v", failure)
		}
	}
	if other.Unlock() != nil || hold.Unlock() != nil {
		t.Error("the unlocks")
	}
	server.signal(19) // SIGSTOP
	err = try(client.Reentrant("a"))
	server.signal(18) // SIGCONT
	if failure, _ := err.(*Error); !errors.Is(err, ErrInDoubt) || failure.FreeIn <= 0 {
		t.Error(err)
	}
}

// entriesOf returns the names that an expression finds in a file.
func entriesOf(t *testing.T, file, expression string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestEachCodeReasonAndOptionOfTheHeaderIsThere(t *testing.T) {
	const header = "../../include/rlock/rlock.h"
	for _, c := range []struct{ file, in, is string }{
		{"errors.go", `X\(E(\w+), -`, `C\.RLOCK_E(\w+) `}, {"errors.go", `RLOCK_LOST_([A-Z_]+)[, ]`, `C\.RLOCK_LOST_(\w+) `},
		{"client.go", `\bRLOCK_CLIENT_([A-Z_]+) = `, `C\.RLOCK_CLIENT_(\w+)`},
		{"lock.go", `\bRLOCK_LOCK_([A-Z_]+) = `, `C\.RLOCK_LOCK_(\w+)`}, {"lock.go", `int rlock_(\w+)_new\(struct rlock_(?:client|handle) `, `C\.rlock_(\w+)_new`},
		{"glue.h", `\bRLOCK_TAKE_([A-Z_]+) = `, `RLOCK_TAKE_(\w+)`}, {"lock.go", `(?m)^    \w+ ((?:max|fair|pause)_\w+_ms);`, `c\.(\w+_ms)\b`},
		{"client.go", `(?m)^    (?:int64_t (?:connect|op|renewed|safety)|const char \*)(\w+); +/\* .*default`, `opts\.(?:connect|op|renewed|safety)?(\w+)`},
		{"glue.h", `(?m)^    rlock_\w+_fn \*(\w+);`, `opts->(\w+)`},
	} {
		ours := entriesOf(t, c.file, c.is)
		for _, name := range entriesOf(t, header, c.in) {
			without := []string{"USER_LOOP", "SENT_UNLOCK"} // goroutines need no loop; the README says that it is not there yet
			if !slices.Contains(ours, name) && !slices.Contains(without, name) {
				t.Error(c.file, "lacks", name)
			}
		}
		if len(entriesOf(t, header, c.in)) == 0 {
			t.Error("nothing is found: ", c.in)
		}
	}
}
