package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/clienttest"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
)

// TestMain lets the test binary stand in for sandgate, so that signals,
// terminals and restarts are tested on real processes.
func TestMain(m *testing.M) {
	switch os.Getenv("SANDGATE_TEST_AS") {
	case "sandgate":
		main()
	case "part":
		partMain()
	case "supervisor":
		supervisorMain()
	default:
		os.Exit(m.Run())
	}
}

// cli is one call of the program in this process.
type cli struct {
	env  []string
	home string
}

func newCLI(t *testing.T, s *clienttest.Server) *cli {
	t.Helper()
	home := t.TempDir()
	c := &cli{home: home, env: []string{"HOME=" + home}}
	if s != nil {
		c.env = append(c.env, "SANDGATE_URL="+s.URL, "SANDGATE_TOKEN="+s.Token)
	}
	return c
}

// run returns what the program writes and its exit code.
func (c *cli) run(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	go func() {
		_, _ = io.WriteString(feed, stdin)
		_ = feed.Close()
	}()
	var out, errs lockedBuffer
	a := &app{in: in, out: &out, err: &errs, env: c.env}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	code = a.main(ctx, args)
	return out.String(), errs.String(), code
}

// process returns the program as a process of its own.
func (c *cli) process(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append([]string{"SANDGATE_TEST_AS=sandgate", "PATH=" + os.Getenv("PATH")}, c.env...)
	return cmd
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newServer(t *testing.T, script clienttest.Script) *clienttest.Server {
	t.Helper()
	s := clienttest.New(script)
	t.Cleanup(s.Close)
	return s
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunShowsOutputAndExits(t *testing.T) {
	var s *clienttest.Server
	s = newServer(t, clienttest.Script{Program: func(_ context.Context, p *clienttest.Program) protocol.Exit {
		code, _ := s.File(p.Open.Session, p.Open.File)
		input, _ := io.ReadAll(p.Stdin)
		p.Stdout([]byte(fmt.Sprintf("%s %s %q %s\n", p.Open.File, code, p.Open.Args, input)))
		p.Stderr([]byte("oh " + p.Open.Env["WHO"] + "\n"))
		return protocol.Exit{Code: 3}
	}})
	c := newCLI(t, s)
	file := writeFile(t, "prog.py", "CODE")
	extra := writeFile(t, "data.csv", "1,2")
	out, errs, code := c.run(t, "INPUT", "run", "--env", "WHO=no", "--file", extra, "--file", extra+":other.csv", file, "a", "--b")
	if out != "prog.py CODE [\"a\" \"--b\"] INPUT\n" || errs != "oh no\n" || code != 3 {
		t.Errorf("got %q, %q, %d", out, errs, code)
	}
	for _, name := range []string{"data.csv", "other.csv"} {
		if b, ok := s.File("s1", name); !ok || string(b) != "1,2" {
			t.Errorf("%s was not sent", name)
		}
	}
	if d := s.Deleted(); len(d) != 1 || d[0] != "s1" {
		t.Errorf("deleted sessions: %q", d)
	}
	if _, errs, _ = c.run(t, "", "run", "--keep", "-c", "x"); !strings.Contains(errs, "session s2\n") || len(s.Deleted()) != 1 {
		t.Errorf("--keep: %q, deleted %q", errs, s.Deleted())
	}
	if out, _, _ = c.run(t, "from stdin", "run", "-"); !strings.HasPrefix(out, "main.py from stdin []") {
		t.Errorf("from standard input: %q", out)
	}
	if out, _, _ = c.run(t, "", "run", "-l", "javascript", "-c", "x"); !strings.HasPrefix(out, "main.js x") {
		t.Errorf("in another language: %q", out)
	}
	if out, _, _ = c.run(t, "", "run", "--session", "s2", file); !strings.HasPrefix(out, "prog.py") || len(s.Deleted()) != 3 {
		t.Errorf("in a session: %q, deleted %q", out, s.Deleted())
	}
}

func TestRunErrors(t *testing.T) {
	s := newServer(t, clienttest.Script{})
	c := newCLI(t, s)
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no file", []string{"run"}, usageExit, "FILE"},
		{"missing file", []string{"run", "/none/x.py"}, fault.NotFound.Row().Exit, "no such file"},
		{"directory", []string{"run", "/"}, fault.InvalidArgument.Row().Exit, "directory"},
		{"language", []string{"run", "-l", "cobol", "-c", "x"}, fault.InvalidArgument.Row().Exit, "cobol"},
		{"session", []string{"run", "--session", "none", "-c", "x"}, fault.NotFound.Row().Exit, "none"},
		{"flag", []string{"run", "--bogus"}, usageExit, "bogus"},
		{"command", []string{"bogus"}, usageExit, "bogus"},
		{"away", []string{"run", "--url", "http://127.0.0.1:1", "-c", "x"}, fault.Unavailable.Row().Exit, "cannot be reached"},
		{"address", []string{"run", "--url", "nonsense", "-c", "x"}, fault.InvalidArgument.Row().Exit, "nonsense"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, errs, code := c.run(t, "", tt.args...)
			if code != tt.code || !strings.Contains(errs, tt.want) || !strings.HasPrefix(errs, "sandgate") {
				t.Errorf("got %d and %q, want %d and %q", code, errs, tt.code, tt.want)
			}
		})
	}
	c.env = append(c.env, "SANDGATE_TOKEN=wrong")
	_, errs, code := c.run(t, "", "sessions")
	if code != fault.Unauthenticated.Row().Exit || !strings.Contains(errs, "(unauthenticated)\n  ") {
		t.Errorf("a wrong token: %d, %q", code, errs)
	}
}

func TestRunLostSandbox(t *testing.T) {
	var s *clienttest.Server
	s = newServer(t, clienttest.Script{Program: func(ctx context.Context, p *clienttest.Program) protocol.Exit {
		p.Stdout([]byte("before\n"))
		_, _ = io.ReadAll(p.Stdin) // the client is attached now
		s.Lose(p.Open.Session, "memory")
		<-ctx.Done()
		return protocol.Exit{}
	}})
	out, errs, code := newCLI(t, s).run(t, "", "run", "-c", "x")
	if code != fault.SandboxLost.Row().Exit || out != "before\n" || !strings.Contains(errs, "memory (sandbox_lost)") {
		t.Errorf("got %d, %q, %q", code, out, errs)
	}
}

// TestRunLostByExit: a sandbox that dies ends the log with a code below 0.
func TestRunLostByExit(t *testing.T) {
	s := newServer(t, clienttest.Script{Program: func(context.Context, *clienttest.Program) protocol.Exit {
		return protocol.Exit{Code: -1, Reason: "memory"}
	}})
	_, errs, code := newCLI(t, s).run(t, "", "run", "-c", "x")
	if code != fault.SandboxLost.Row().Exit || !strings.Contains(errs, "ran out of memory (sandbox_lost)") {
		t.Errorf("got %d, %q", code, errs)
	}
}

// TestRunPassesSignalsOn presses Ctrl-C once, then again.
func TestRunPassesSignalsOn(t *testing.T) {
	started := make(chan struct{}, 2)
	stubborn := make(chan bool, 1)
	s := newServer(t, clienttest.Script{Program: func(ctx context.Context, p *clienttest.Program) protocol.Exit {
		p.Stdout([]byte("up\n"))
		started <- struct{}{}
		for {
			select {
			case name := <-p.Signals:
				p.Stdout([]byte(name + "\n"))
				if p.Open.Args == nil || name == "SIGKILL" {
					return protocol.Exit{Code: 128 + map[string]int{"SIGINT": 2, "SIGKILL": 9}[name], Signal: name}
				}
				stubborn <- true
			case <-ctx.Done():
				return protocol.Exit{}
			}
		}
	}})
	c := newCLI(t, s)
	start := func(args ...string) (*exec.Cmd, *lockedBuffer) {
		cmd := c.process(append([]string{"run", "-c", "x"}, args...)...)
		out := new(lockedBuffer)
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-started
		for !strings.Contains(out.String(), "up") { // it is attached once it has shown this
			if cmd.ProcessState != nil {
				t.Fatal("it ended")
			}
			<-time.After(time.Millisecond)
		}
		return cmd, out
	}
	cmd, out := start()
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(out.String(), "SIGINT") {
		t.Errorf("after one: %d, %q", code, out.String())
	}
	cmd, out = start("stubborn")
	_ = cmd.Process.Signal(syscall.SIGINT)
	<-stubborn
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 137 || !strings.Contains(out.String(), "SIGKILL") {
		t.Errorf("after two: %d, %q", code, out.String())
	}
	if d := s.Deleted(); len(d) != 2 {
		t.Errorf("deleted sessions: %q", d)
	}
}

func TestSessionsRmCpStatusToken(t *testing.T) {
	s := newServer(t, clienttest.Script{})
	c := newCLI(t, s)
	if out, errs, code := c.run(t, "", "sessions"); out != "" || code != 0 {
		t.Errorf("no sessions: %q, %q, %d", out, errs, code)
	}
	c.run(t, "", "run", "--keep", "-c", "x")
	c.run(t, "", "run", "--keep", "-c", "x")
	if out, _, _ := c.run(t, "", "sessions", "-q"); out != "s2\ns1\n" {
		t.Errorf("ids: %q", out)
	}
	if out, _, _ := c.run(t, "", "sessions"); !strings.Contains(out, "LANGUAGE") || strings.Count(out, "\n") != 3 {
		t.Errorf("table: %q", out)
	}
	file := writeFile(t, "x.txt", "content")
	if _, errs, code := c.run(t, "", "cp", file, "s1:"); code != 0 {
		t.Fatalf("cp in: %d, %q", code, errs)
	}
	if _, errs, code := c.run(t, "piped", "cp", "-", "s1:/tmp/y"); code != 0 {
		t.Fatalf("cp from standard input: %d, %q", code, errs)
	}
	dir := t.TempDir()
	if _, errs, code := c.run(t, "", "cp", "s1:x.txt", dir); code != 0 {
		t.Fatalf("cp out: %d, %q", code, errs)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "x.txt")); err != nil || string(b) != "content" {
		t.Errorf("came back as %q, %v", b, err)
	}
	if out, _, _ := c.run(t, "", "cp", "s1:/tmp/y", "-"); out != "piped" {
		t.Errorf("cp to standard output: %q", out)
	}
	if _, _, code := c.run(t, "", "cp", "s1:none", dir); code != fault.NotFound.Row().Exit {
		t.Errorf("cp of nothing: %d", code)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files after a failed copy", len(files))
	}
	if _, _, code := c.run(t, "", "cp", "a", "b"); code != usageExit {
		t.Errorf("cp without a session: %d", code)
	}
	if _, _, code := c.run(t, "", "rm", "s1", "none", "s2"); code != fault.NotFound.Row().Exit || len(s.Deleted()) != 2 {
		t.Errorf("rm: %d, deleted %q", code, s.Deleted())
	}
	if out, _, code := c.run(t, "", "status"); code != 0 || !strings.Contains(out, "2 of 2 ready") {
		t.Errorf("status: %d, %q", code, out)
	}
	if out, _, _ := c.run(t, "", "token"); out != s.Token+"\n" {
		t.Errorf("token: %q", out)
	}
	if out, _, _ := c.run(t, "", "version"); !strings.HasPrefix(out, "sandgate ") {
		t.Errorf("version: %q", out)
	}
}

// TestHelp: every command has help, in which every flag is explained.
func TestHelp(t *testing.T) {
	c := newCLI(t, nil)
	overview, _, code := c.run(t, "", "help")
	if code != 0 {
		t.Errorf("help exits with %d", code)
	}
	for _, cmd := range commands() {
		out, errs, code := c.run(t, "", cmd.name, "--help")
		if code != 0 || errs != "" || !strings.HasPrefix(out, "usage: sandgate "+cmd.name) || !strings.Contains(out, cmd.short) {
			t.Errorf("%s --help: %d, %q, %q", cmd.name, code, errs, out)
		}
		if !strings.Contains(overview, "  "+cmd.name) {
			t.Errorf("the overview lacks %s", cmd.name)
		}
		if again, _, _ := c.run(t, "", "help", cmd.name); again != out {
			t.Errorf("help %s differs from %s --help", cmd.name, cmd.name)
		}
	}
	if _, _, code := c.run(t, ""); code != usageExit {
		t.Errorf("without a command: %d", code)
	}
}

func TestConfigCommand(t *testing.T) {
	c := newCLI(t, nil)
	c.env = append(c.env, "SANDGATE_POOL_SIZE=7")
	file := writeFile(t, "c.yaml", "log:\n  level: warn\n")
	out, errs, code := c.run(t, "", "config", "show", "--config", file, "--platform", "kvm")
	if code != 0 || !strings.Contains(out, "size: 7") || !strings.Contains(out, "level: warn") || !strings.Contains(out, "platform: kvm") {
		t.Errorf("show: %d, %q, %q", code, out, errs)
	}
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if out, _, _ := c.run(t, "", "config", "reference"); out != string(page) {
		t.Error("config reference is not docs/configuration.md")
	}
	if _, _, code := c.run(t, "", "config"); code != usageExit {
		t.Errorf("config alone exits with %d", code)
	}
	_, errs, code = c.run(t, "", "config", "show", "--config", writeFile(t, "c.yaml", "bogus: 1\n"))
	if code != fault.InvalidArgument.Row().Exit || !strings.Contains(errs, "bogus") || !strings.Contains(errs, "line 1") {
		t.Errorf("a wrong key: %d, %q", code, errs)
	}
}

func TestServeRefusals(t *testing.T) {
	c := newCLI(t, nil)
	_, errs, code := c.run(t, "", "serve", "--listen", "0.0.0.0:8080")
	if code != fault.InvalidArgument.Row().Exit || !strings.Contains(errs, "--insecure-listen-without-tls") {
		t.Errorf("a public address: %d, %q", code, errs)
	}
	if _, _, code := c.run(t, "", "serve", "--gateway-user", "root", "--data-dir", t.TempDir(), "--run-dir", t.TempDir()); code == 0 {
		t.Error("the gateway would run as root")
	}
}

func TestDoctor(t *testing.T) {
	s := newServer(t, clienttest.Script{Run: []string{`{"type":"stdout","text":"42\n"}`, `{"type":"done","status":"ok"}`}})
	c := newCLI(t, s)
	out, errs, code := c.run(t, "", "doctor", "--image", "/none/image.erofs", "--data-dir", t.TempDir())
	if code != fault.Host.Row().Exit {
		t.Errorf("exits with %d, %q", code, errs)
	}
	for _, want := range []string{"fail  image", "make build", "warn  token", "ok    sign-in", "ok    one cell"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
}

func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	who := invoker{uid: os.Getuid(), gid: os.Getgid(), home: dir}
	path := filepath.Join(dir, "token")
	first, err := loadToken(path, who)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first, "sgt_") || len(first) != 4+52 {
		t.Errorf("the token is %q", first)
	}
	if again, err := loadToken(path, who); err != nil || again != first {
		t.Errorf("the second start has another token, %v", err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := loadToken(path, who); !fault.Is(err, fault.Host) {
		t.Errorf("a token that all can read: %v", err)
	}
}

// TestProfileStaysAtHome: root writes the profile, and no link in the user's
// home leads it elsewhere.
func TestProfileStaysAtHome(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	who := invoker{uid: os.Getuid(), gid: os.Getgid(), home: home}
	want := profile{URL: "http://127.0.0.1:1", Token: "sgt_x"}
	if err := writeProfile(who, want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, profilePath)
	if got, err := readProfile(path); err != nil || got != want {
		t.Errorf("read %+v, %v", got, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	c := &cli{home: home, env: []string{"HOME=" + home}}
	if out, _, _ := c.run(t, "", "token"); out != "sgt_x\n" {
		t.Errorf("the command line reads %q", out)
	}
	if err := os.RemoveAll(filepath.Join(home, ".config")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(home, ".config")); err != nil {
		t.Fatal(err)
	}
	if err := writeProfile(who, want); err == nil {
		t.Error("a link out of the home was followed")
	}
	if files, _ := os.ReadDir(outside); len(files) != 0 {
		t.Errorf("something was written outside: %v", files)
	}
}

func TestPipedREPL(t *testing.T) {
	s := newServer(t, pythonish())
	c := newCLI(t, s)
	out, errs, code := c.run(t, "x = 1\ndef f():\n  pass\n\nask\nAda\nfigure\n", "repl")
	if code != 0 || errs != "[sandgate: image/png, 1 KiB; --save-figures DIRECTORY saves it]\n" {
		t.Errorf("%d, %q", code, errs)
	}
	if want := "<x = 1><def f():|  pass|><ask>hello Ada<figure>\nFigure\n"; out != want {
		t.Errorf("got  %q\nwant %q", out, want)
	}
	if d := s.Deleted(); len(d) != 1 {
		t.Errorf("deleted sessions: %q", d)
	}
	out, errs, code = c.run(t, "fail\nok", "repl", "python")
	if code != 1 || out != "<fail><ok>" || errs != "Boom: no\n" {
		t.Errorf("a cell that fails: %d, %q, %q", code, out, errs)
	}
	if _, _, code = c.run(t, "exit\nnever\n", "repl"); code != 4 {
		t.Errorf("sys.exit(4) gave %d", code)
	}
	dir := t.TempDir()
	if _, _, code = c.run(t, "figure\nfigure\n", "repl", "--save-figures", dir); code != 0 {
		t.Errorf("figures: %d", code)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "figure-2.png")); err != nil || string(b) != "hello" {
		t.Errorf("the figure is %q, %v", b, err)
	}
}

// pythonish is a kernel that echoes its cells between < and >.
func pythonish() clienttest.Script {
	return clienttest.Script{
		Execute: func(_ context.Context, c *clienttest.Cell) kernel.ExecuteReply {
			c.Stdout("<" + strings.ReplaceAll(c.Code, "\n", "|") + ">")
			switch c.Code {
			case "ask":
				line, ok := c.Ask("name? ", false)
				if !ok {
					line = "nobody"
				}
				c.Stdout("hello " + line)
			case "secret":
				line, _ := c.Ask("password: ", true)
				c.Stdout(fmt.Sprint("length ", len(line)))
			case "loop":
				<-c.Interrupted
				c.Message(kernel.ErrorType, kernel.Error{EName: "KeyboardInterrupt", Traceback: []string{"KeyboardInterrupt"}})
				return kernel.ExecuteReply{Status: "error", EName: "KeyboardInterrupt"}
			case "fail":
				c.Message(kernel.ErrorType, kernel.Error{EName: "Boom", EValue: "no", Traceback: []string{"\x1b[31mBoom\x1b[0m: no"}})
				return kernel.ExecuteReply{Status: "error", EName: "Boom"}
			case "exit":
				code := 4
				return kernel.ExecuteReply{Status: "ok", ExitCode: &code}
			case "figure":
				c.Message(kernel.DisplayDataType, map[string]any{"data": map[string]string{"text/plain": "Figure", "image/png": "aGVsbG8="}})
			}
			return kernel.ExecuteReply{Status: "ok"}
		},
		IsComplete: func(code string) kernel.Reply {
			if strings.Contains(code, ":\n") && !strings.HasSuffix(code, "\n\n") {
				return kernel.Reply{IsComplete: "incomplete"}
			}
			return kernel.Reply{IsComplete: "complete"}
		},
		Complete: func(p protocol.Complete) kernel.Reply {
			if strings.HasSuffix(p.Code, "imp") {
				return kernel.Reply{Matches: []kernel.Match{{Text: "import"}}, Start: p.Cursor - 3, End: p.Cursor}
			}
			word := strings.LastIndexAny(p.Code, " \n") + 1
			return kernel.Reply{Matches: []kernel.Match{{Text: "alpha"}, {Text: "alphabet"}}, Start: word, End: p.Cursor}
		},
	}
}
