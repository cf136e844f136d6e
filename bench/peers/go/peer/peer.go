// SPDX-License-Identifier: Apache-2.0

// Package peer is what the Go peers share: bench/peers/README.md says what the bench tells them, and what they answer.
package peer

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Run is what the bench asks for.
type Run struct {
	Row            string
	Threads, First int
	Hold           time.Duration
	Addrs          []string // of the servers, host:port
	Name           string   // of the lock; "": as README.md says
	Counter        string   // the file that each holder visits; "": there is none
	Slot           int      // of this process, in that file
}

// Lock is what a library has to offer.
type Lock interface {
	Lock()
	Unlock()
}

const (
	warming = iota
	measuring
	over
)

type worker struct {
	longest int64
	samples []int64
}

var phase atomic.Int32

// Must ends the program where a library failed.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Version is that of a module this program was built with.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "unknown"
}

// Asked reads the command line.
func Asked() (run Run) {
	for _, word := range os.Args[1:] {
		key, value, _ := strings.Cut(word, "=")
		number, _ := strconv.Atoi(value)
		switch key {
		case "row":
			run.Row = value
		case "threads":
			run.Threads = number
		case "first":
			run.First = number
		case "hold_us":
			run.Hold = time.Duration(number) * time.Microsecond
		case "name":
			run.Name = value
		case "counter":
			run.Counter = value
		case "slot":
			run.Slot = number
		case "url":
			run.Addrs = append(run.Addrs, strings.TrimPrefix(value, "redis://"))
		}
	}
	return run
}

// book is the file of the word counter: bench/peers/README.md says what is in it.
type book struct {
	file *os.File
	own  int64
}

func openBook(run *Run) *book {
	if run.Counter == "" {
		return nil
	}
	file, err := os.OpenFile(run.Counter, os.O_RDWR, 0)
	Must(err)
	return &book{file, 16 + 8*int64(run.Slot)}
}

func (b *book) read(at int64) int64 {
	var bytes [8]byte
	_, err := b.file.ReadAt(bytes[:], at)
	Must(err)
	return int64(binary.LittleEndian.Uint64(bytes[:]))
}

func (b *book) write(at, number int64) {
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], uint64(number))
	_, err := b.file.WriteAt(bytes[:], at)
	Must(err)
}

func (b *book) visit(hold time.Duration) {
	number := b.read(0)
	time.Sleep(hold)
	b.write(0, number+1)
	b.write(b.own, b.read(b.own)+1)
	b.write(8, time.Now().UnixNano())
}

func (w *worker) note(took time.Duration) {
	now := phase.Load()
	if now != warming {
		w.longest = max(w.longest, int64(took))
	}
	if now == measuring {
		w.samples = append(w.samples, int64(took))
	}
}

func (w *worker) work(run *Run, lock Lock, book *book) {
	ofBoth := run.Row == "own"
	for phase.Load() != over {
		began := time.Now()
		lock.Lock()
		if !ofBoth {
			w.note(time.Since(began))
		}
		if book != nil {
			book.visit(run.Hold)
		} else if run.Hold > 0 {
			time.Sleep(run.Hold)
		}
		lock.Unlock()
		if ofBoth {
			w.note(time.Since(began))
		}
	}
}

// Work has goroutines lock and unlock, each what newLock gives for a name, until the bench says that it is over.
func Work(run Run, about string, newLock func(name string) Lock) {
	workers := make([]worker, run.Threads)
	book := openBook(&run)
	var running sync.WaitGroup
	for i := range workers {
		name := fmt.Sprintf("name%04d", run.First+i)
		if run.Row == "one" {
			name = "name0000"
		}
		if run.Name != "" {
			name = run.Name
		}
		lock := newLock(name)
		running.Go(func() { workers[i].work(&run, lock, book) })
	}
	fmt.Println("ready", about)
	told := bufio.NewScanner(os.Stdin)
	for next := int32(measuring); next <= over && told.Scan(); next++ {
		phase.Store(next)
	}
	phase.Store(over)
	running.Wait()
	out := bufio.NewWriter(os.Stdout)
	for i, w := range workers {
		fmt.Fprint(out, i, " ", w.longest)
		for _, sample := range w.samples {
			fmt.Fprint(out, " ", sample)
		}
		fmt.Fprintln(out)
	}
	Must(out.Flush())
}
