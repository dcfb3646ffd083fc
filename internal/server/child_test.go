package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/console"
)

// TestMain lets the test binary run as a part of the server or as its supervisor, so that restarts
// are tested on real processes.
func TestMain(m *testing.M) {
	switch os.Getenv("SANDGATE_TEST_AS") {
	case "part":
		partMain()
	case "supervisor":
		supervisorMain()
	default:
		os.Exit(m.Run())
	}
}

// partMain is a part of the server. It echoes its settings on every connection, and reports that it
// is ready unless its settings make it fail.
func partMain() {
	input, status := inherited()
	lines := bufio.NewScanner(input)
	lines.Scan()
	settings := lines.Text()
	if settings == "fail" {
		fmt.Fprintln(os.Stderr, "the part says why")
		os.Exit(218)
	}
	ln, err := net.FileListener(os.NewFile(5, "listener"))
	if err != nil {
		os.Exit(1)
	}
	if settings == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	status.report("%s", statusReady)
	for {
		conn, err := ln.Accept()
		if err != nil {
			os.Exit(1)
		}
		fmt.Fprintf(conn, "%s %d\n", settings, os.Getpid())
		_ = conn.Close()
	}
}

// supervisorMain supervises one part until it is killed. The test checks whether the part survives.
func supervisorMain() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(ln.Addr())
	p := newPart(ln, "orphan")
	_ = supervise(context.Background(), []*child{p})
}

func newPart(ln net.Listener, settings string) *child {
	socket, err := ln.(*net.TCPListener).File()
	if err != nil {
		panic(err)
	}
	return &child{
		name: "part", argv: []string{"/proc/self/exe"}, env: []string{"SANDGATE_TEST_AS=part"},
		input: []byte(settings),
		files: []*os.File{socket}, stop: 5 * time.Second, out: io.Discard,
		log: slog.New(slog.DiscardHandler),
	}
}

// greet connects and returns the process that answered.
func greet(t *testing.T, address string) int {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("a connection was refused: %v", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	words := strings.Fields(line)
	pid, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestSupervisorRestarts kills a part repeatedly: every connection is answered eventually, by a new
// process.
func TestSupervisorRestarts(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	p := newPart(ln, "hello")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- supervise(ctx, []*child{p}) }()
	last := 0
	for range 4 {
		pid := greet(t, ln.Addr().String())
		if pid == last {
			t.Fatalf("process %d answered after it was killed", pid)
		}
		last = pid
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitGone(t, pid)
	}
	pid := greet(t, ln.Addr().String())
	if _, n := p.state(); n != 4 {
		t.Errorf("%d restarts, want 4", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("supervise returned %v", err)
	}
	waitGone(t, pid)
}

// waitGone waits until a process has been reaped.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		// An orphan remains until process 1 reaps it. A child of this process is a zombie as soon
		// as its first thread has ended, although another thread may still accept a connection.
		_, state, _ := strings.Cut(string(stat), ") ")
		if err != nil || strings.HasPrefix(state, "Z ") &&
			!strings.HasPrefix(state, fmt.Sprintf("Z %d ", os.Getpid())) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
		<-time.After(time.Millisecond)
	}
}

func TestSupervisorGivesUpOnABadStart(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	bad, good := newPart(ln, "fail"), newPart(ln, "hello")
	err = supervise(context.Background(), []*child{good, bad})
	var status console.ExitStatus
	if !errors.As(err, &status) || int(status) != 218 {
		t.Errorf("got %v, want the part's own exit status 218", err)
	}
	if pid, _ := good.state(); pid != 0 {
		waitGone(t, pid)
	}
}

// TestSupervisorKillsStubbornParts: a part that ignores SIGTERM ends nevertheless.
func TestSupervisorKillsStubbornParts(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	p := newPart(ln, "stubborn")
	p.stop = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- supervise(ctx, []*child{p}) }()
	pid := greet(t, ln.Addr().String())
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	waitGone(t, pid)
}

// TestPartsDieWithTheSupervisor: nothing survives a supervisor that is killed.
func TestPartsDieWithTheSupervisor(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"SANDGATE_TEST_AS=supervisor"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid := greet(t, strings.TrimSpace(address))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	waitGone(t, pid)
}

// TestPartsAreLean: the operator's own settings override those that keep idle connections small.
func TestPartsAreLean(t *testing.T) {
	for _, c := range []struct {
		env, want []string
	}{
		{nil, []string{"GODEBUG=adaptivestackstart=0", "GOGC=50"}},
		{[]string{"GOGC=200", "GODEBUG=gctrace=1"}, []string{"GODEBUG=gctrace=1", "GOGC=200"}},
	} {
		var got []string
		for _, v := range gatewayEnv(childEnv(&console.Invocation{Env: c.env})) {
			if strings.HasPrefix(v, "GO") {
				got = append(got, v)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("with %v the gateway gets %v, want %v", c.env, got, c.want)
		}
	}
}
