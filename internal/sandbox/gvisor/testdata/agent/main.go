// Command agent is the first process of the sandboxes in this package's
// tests. It answers each line of its standard input by one of its standard
// output.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	switch strings.Join(os.Args[1:], " ") {
	case "true":
		return
	case "wait":
		time.Sleep(time.Hour)
	}
	began := time.Now()
	var counter int
	var ticks atomic.Int64
	fmt.Println("ready")
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			os.Exit(3)
		}
		verb, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		args := strings.Fields(rest)
		switch verb {
		case "echo":
			fmt.Println(rest)
		case "count":
			counter++
			fmt.Println(counter)
		case "tick": // counts time that it gets, in the background
			go func() {
				for {
					time.Sleep(time.Millisecond)
					ticks.Add(1)
				}
			}()
			fmt.Println("ok")
		case "ticks":
			fmt.Println(ticks.Load())
		case "clock": // the time of day, and that since the start
			now := time.Now()
			fmt.Println(now.UnixNano(), int64(now.Sub(began)))
		case "env":
			fmt.Println(os.Getenv(rest))
		case "newenv":
			data, err := os.ReadFile("/proc/gvisor/spec_environ")
			fmt.Println(strings.ReplaceAll(string(data), "\x00", ";"), err)
		case "host":
			h, err := os.Hostname()
			fmt.Println(h, err)
		case "pid":
			fmt.Println(os.Getpid(), os.Getuid())
		case "status":
			data, _ := os.ReadFile("/proc/self/status")
			fmt.Println(strings.ReplaceAll(string(data), "\n", ";"))
		case "fill": // path, bytes
			n, _ := strconv.ParseInt(args[1], 10, 64)
			fmt.Println(fill(args[0], n))
		case "cat":
			data, err := os.ReadFile(args[0])
			fmt.Println(strconv.Quote(string(data)), err)
		case "write":
			fmt.Println(os.WriteFile(args[0], []byte(args[1]), 0o600))
		case "ls":
			entries, err := os.ReadDir(args[0])
			for _, e := range entries {
				fmt.Print(e.Name(), " ")
			}
			fmt.Println(err)
		case "link": // what it says, where it is
			fmt.Println(os.Symlink(args[0], args[1]))
		case "remove":
			fmt.Println(os.Remove(args[0]))
		case "hold": // a file that stays open
			f, err := os.OpenFile(args[0], os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
			held = f
			fmt.Println(err)
		case "append": // to the file that is held
			_, err := held.WriteString(rest)
			fmt.Println(err)
		case "open": // how many files can be open
			fmt.Println(open())
		case "alloc": // bytes
			n, _ := strconv.ParseInt(args[0], 10, 64)
			hold = append(hold, alloc(n))
			fmt.Println("ok")
		case "memory": // makes memory to work on
			own = newMemory()
			fmt.Println(own.hash())
		case "hash": // of that memory
			fmt.Println(own.hash())
		case "change": // seed, rounds
			seed, _ := strconv.ParseUint(args[0], 10, 64)
			rounds, _ := strconv.Atoi(args[1])
			fmt.Println(own.run(seed, rounds))
		case "spin":
			for i := range 4 {
				go func() {
					for n := i; ; n++ {
						sink.Store(int64(n))
					}
				}()
			}
			fmt.Println("ok")
		case "children": // how many
			n, _ := strconv.Atoi(args[0])
			fmt.Println(children(n))
		case "stderr":
			fmt.Fprintln(os.Stderr, rest)
			fmt.Println("ok")
		case "flood": // bytes, to standard error
			n, _ := strconv.Atoi(args[0])
			for ; n > 0; n -= 1 << 10 {
				os.Stderr.WriteString(strings.Repeat("x", 1023) + "\n")
			}
			fmt.Println("ok")
		case "exit":
			n, _ := strconv.Atoi(args[0])
			os.Exit(n)
		case "abort":
			syscall.Kill(syscall.Getpid(), syscall.SIGABRT)
			// Not select{}: Go would find a deadlock while the signal ends it, and
			// two ends at once can wait for each other for ever.
			time.Sleep(time.Hour)
		default:
			fmt.Println("what?")
		}
	}
}

var (
	held *os.File
	hold [][]byte
	sink atomic.Int64
	own  *memory
)

func alloc(n int64) []byte {
	b := make([]byte, n)
	for i := int64(0); i < n; i += 4096 {
		b[i] = byte(i>>12) | 1
	}
	return b
}

// fill writes n bytes to path and says how far it came, and why no further.
func fill(path string, n int64) string {
	f, err := os.Create(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	var done int64
	for done < n {
		m, err := f.Write(block)
		done += int64(m)
		if err != nil {
			var errno syscall.Errno
			errors.As(err, &errno)
			return fmt.Sprint(done, " ", errno == syscall.ENOSPC, " ", err)
		}
	}
	return fmt.Sprint(done, " whole")
}

func open() string {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for {
		f, err := os.Open("/proc/self/status")
		if err != nil {
			return fmt.Sprint(len(files), " ", errors.Is(err, syscall.EMFILE))
		}
		files = append(files, f)
	}
}

// children starts n processes of another user that wait for ever, and says how
// many it could. (Root has no limit.)
func children(n int) string {
	for i := range n {
		cmd := exec.Command("/proc/self/exe", "wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
		if err := cmd.Start(); err != nil {
			return fmt.Sprint(i, " ", errors.Is(err, syscall.EAGAIN))
		}
	}
	return fmt.Sprint(n, " whole")
}
