package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// goClient returns a client of a server with its token.
func goClient(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	if o.URL == "" {
		o.URL = server.URL
	}
	if o.Token == "" && o.Ticket == "" {
		o.Token = server.Token
	}
	c, err := client.New(o)
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// goSandbox returns a sandbox that is deleted after the test.
func goSandbox(t *testing.T, c *client.Client, o client.SandboxOptions) *client.Sandbox {
	t.Helper()
	s, err := c.Sandbox(deadline(t), o)
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if err := s.Delete(ctx); err != nil && !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	})
	return s
}

// goRun runs code that has to succeed, and returns its value as text.
func goRun(t *testing.T, s *client.Sandbox, code string) string {
	t.Helper()
	r, err := s.Run(deadline(t), code, client.RunOptions{Check: true, NoFiles: true})
	check(t, err)
	return r.Text()
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// errorOf returns the error of the last item of an iteration.
func errorOf[T any](all func(func(T, error) bool)) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestGoClient runs the scenarios of client/scenarios.json that can share a session.
func TestGoClient(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	c := goClient(t, client.Options{})
	s := goSandbox(t, c, client.SandboxOptions{})
	t.Run("run", func(t *testing.T) {
		r, err := s.Run(ctx, "import sys; x = 6; open('new.txt', 'w').write('hi')\n"+
			"print('out'); print('err', file=sys.stderr)\n"+
			"from IPython.display import display, HTML; display(HTML('<b>h</b>'))\n"+
			"import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show(); x * 7")
		check(t, err)
		equal(t, "text", r.Text(), "42")
		equal(t, "stdout", r.Stdout(), "out\n")
		equal(t, "stderr", r.Stderr(), "err\n")
		equal(t, "html", r.HTML(), "<b>h</b>")
		equal(t, "png", strings.HasPrefix(string(r.PNG()), "\x89PNG"), true)
		if len(r.Files) != 1 || r.Files[0].Path != "/home/user/new.txt" || r.Files[0].Size != 2 {
			t.Errorf("files: %+v", r.Files)
		}
		r, err = s.Run(ctx, "x / 0")
		check(t, err)
		equal(t, "status", r.Status, "error")
		equal(t, "error", r.Error.Error(), "ZeroDivisionError: division by zero")
		equal(t, "traceback", strings.Contains(r.Error.Traceback, "x / 0"), true)
		_, err = s.Run(ctx, "x / 0", client.RunOptions{Check: true})
		equal(t, "checked", fmt.Sprint(err), "ZeroDivisionError: division by zero")
		r, err = s.Run(ctx, "while True: pass", client.RunOptions{Timeout: time.Second})
		check(t, err)
		equal(t, "status after the timeout", r.Status, "timeout")
		lines := "Ada\nBob\n"
		r, err = s.Run(ctx, "input('a') + input('b')", client.RunOptions{Stdin: &lines})
		check(t, err)
		equal(t, "input", r.Text(), "'AdaBob'")
	})
	t.Run("stream", func(t *testing.T) {
		began := make(chan struct{})
		var texts []string
		code := "import os, time\nprint('begun', flush=True)\n" +
			"while not os.path.exists('go'): time.sleep(0.01)\nprint('ended')"
		for o, err := range s.Stream(ctx, code) {
			check(t, err)
			if o.Type != client.OutputStdout {
				continue
			}
			if texts = append(texts, o.Text); len(texts) == 1 {
				close(began)
				_, err := s.Files.Write(ctx, "go", nil) // the code ends only after this
				check(t, err)
			}
		}
		<-began
		equal(t, "output", strings.Join(texts, ""), "begun\nended\n")
		for o, err := range s.Stream(ctx, "print(1, flush=True); time.sleep(600)") {
			check(t, err)
			if o.Type == client.OutputStdout {
				break // interrupts the code
			}
		}
		equal(t, "the kernel after a loop was left", goRun(t, s, "6 * 7"), "42")
	})
	t.Run("exec", func(t *testing.T) {
		r, err := s.Exec(ctx, "read l; echo $l $A $PWD; echo bad >&2; exit 3", client.ExecOptions{
			Cwd: "/tmp", Env: map[string]string{"A": "a"}, Stdin: []byte("line\n"),
		})
		check(t, err)
		equal(t, "result", fmt.Sprintf("%d %q %q %s", r.ExitCode, r.Stdout, r.Stderr, r.Status),
			`3 "line a /tmp\n" "bad\n" error`)
		_, err = s.Exec(ctx, "", client.ExecOptions{Argv: []string{"false"}, Check: true})
		if failed, ok := err.(*client.CommandError); !ok || failed.Result.ExitCode != 1 {
			t.Errorf("a failed command: %v", err)
		}
		r, err = s.Exec(ctx, "sleep 600", client.ExecOptions{Timeout: 300 * time.Millisecond})
		check(t, err)
		equal(t, "status after the timeout", r.Status, "timeout")
		r, err = s.Exec(ctx, "echo 1 > made")
		check(t, err)
		if len(r.Files) != 1 || r.Files[0].Change != protocol.ChangeCreated {
			t.Errorf("files: %+v", r.Files)
		}
	})
	t.Run("start", func(t *testing.T) {
		p, err := s.Start(ctx, "read l; echo got $l; exit 4", client.ExecOptions{Input: true})
		check(t, err)
		if code, err := p.ExitCode(ctx); code != nil || err != nil {
			t.Errorf("the exit code of a running process: %v, %v", code, err)
		}
		found, err := s.Process(ctx, p.ID)
		check(t, err)
		check(t, found.Write(ctx, []byte("it\n")))
		r, err := p.Wait(ctx)
		check(t, err)
		equal(t, "result", fmt.Sprintf("%d %q", r.ExitCode, r.Stdout), `4 "got it\n"`)
		check(t, found.Close())
		long, err := s.Start(ctx, "sleep 600")
		check(t, err)
		check(t, long.Signal(ctx, "SIGTERM"))
		r, err = long.Wait(ctx)
		check(t, err)
		equal(t, "a signal", r.Signal, "SIGTERM")
	})
	t.Run("wait_port", func(t *testing.T) {
		_, err := s.Start(ctx, "python3 -m http.server 8401", client.ExecOptions{Cwd: "/tmp"})
		check(t, err)
		check(t, s.WaitPort(ctx, 8401))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = s.WaitPort(short, 8402)
		equal(t, "nobody listens", fault.KindOf(err), fault.DeadlineExceeded)
	})
	t.Run("files", func(t *testing.T) { goFiles(t, s) })
	t.Run("file_link", func(t *testing.T) {
		must(s.Files.Write(ctx, "linked", []byte("content")))(t)
		link, err := s.Files.Link(ctx, "linked", client.LinkOptions{Expires: time.Minute})
		check(t, err)
		resp, err := http.Get(link.URL)
		check(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		check(t, err)
		equal(t, "content", string(body), "content")
	})
	t.Run("file_changes", func(t *testing.T) {
		must(s.Files.Write(ctx, "before.txt", []byte("x")))(t)
		now, err := s.Files.Changes(ctx, "")
		check(t, err)
		must(s.Exec(ctx, "echo 1 > after.txt", client.ExecOptions{NoFiles: true}))(t)
		found, err := s.Files.Changes(ctx, now.Cursor)
		check(t, err)
		if len(found.Files) != 1 || found.Files[0].Path != "/home/user/after.txt" {
			t.Errorf("changes: %+v", found.Files)
		}
	})
	t.Run("file_watch", func(t *testing.T) {
		must(s.Files.Mkdir(ctx, "watched"))(t)
		ready := func() { go func() { _, _ = s.Files.Write(ctx, "watched/new", nil) }() }
		for change, err := range s.Files.Watch(ctx, "watched",
			client.WatchOptions{OnReady: ready}) {
			check(t, err)
			if slices.ContainsFunc(change.Changes, func(f protocol.FileChange) bool {
				return strings.HasSuffix(f.Path, "watched/new") && f.Kind == "created"
			}) {
				break
			}
		}
	})
	t.Run("interrupt", func(t *testing.T) {
		goRun(t, s, "kept = 5")
		r, err := s.Run(ctx, "import time; print('on', flush=True); time.sleep(600)",
			client.RunOptions{OnStdout: func(string) {
				go func() { _ = s.Interrupt(ctx, "") }()
			}})
		check(t, err)
		equal(t, "error", r.Error.Name, "KeyboardInterrupt")
		equal(t, "variable", goRun(t, s, "kept"), "5")
	})
	t.Run("terminal", func(t *testing.T) {
		term, err := s.Terminal(ctx, client.TerminalOptions{Cols: 90, Rows: 30})
		check(t, err)
		check(t, term.Resize(ctx, 100, 40))
		check(t, term.Write(ctx, []byte(
			"until stty size | grep '40 100'; do sleep 0.1; done; echo $((6 * 7))\r")))
		seen := ""
		for part, err := range term.Stream(ctx) {
			check(t, err)
			if seen += string(part); strings.Contains(seen, "40 100") &&
				strings.Contains(seen, "42") {
				break
			}
		}
		check(t, term.End(ctx))
	})
	t.Run("kernel_language", func(t *testing.T) {
		k, err := s.Kernel(ctx, "js")
		check(t, err)
		must(k.Run(ctx, "let n = 20"))(t)
		again, err := s.Kernel(ctx, "javascript")
		check(t, err)
		equal(t, "value", must(again.Run(ctx, "n + 1"))(t).Text(), "21")
		own, err := s.Kernel(ctx, "js", client.KernelOptions{Key: "own"})
		check(t, err)
		equal(t, "separate", must(own.Run(ctx, "typeof n"))(t).Text(), "'undefined'")
		check(t, own.Close())
		all := must(s.Channels(ctx))(t)
		equal(t, "the separate kernel has ended", slices.ContainsFunc(all,
			func(ch protocol.Channel) bool { return ch.ID == own.ID && ch.State != "exited" }), false)
	})
	t.Run("services", func(t *testing.T) {
		state, err := s.Services.Set(ctx, protocol.Service{
			Name: "web", Cmd: "echo serving; exec python3 -m http.server 8400",
			Ready: &protocol.ServiceReady{Port: 8400},
		})
		check(t, err)
		equal(t, "state", state.State, "ready")
		equal(t, "stopped", must(s.Services.Stop(ctx, "web"))(t).State, "stopped")
		equal(t, "started", must(s.Services.Start(ctx, "web"))(t).State, "ready")
		p, err := s.Services.Process(ctx, "web")
		check(t, err)
		for line, err := range p.Logs(ctx) {
			check(t, err)
			equal(t, "line", line, "serving\n")
			break
		}
		check(t, s.Services.Remove(ctx, "web"))
		_, err = s.Services.Get(ctx, "web")
		equal(t, "a removed service", fault.KindOf(err), fault.NotFound)
	})
	t.Run("errors", func(t *testing.T) {
		_, err := c.GetSandbox(ctx, "there-is-none")
		equal(t, "a missing session", fault.KindOf(err), fault.NotFound)
		_, err = c.Sandbox(ctx, client.SandboxOptions{Name: strings.Repeat("n", 200)})
		if p := fault.PublicOf(err); p.Kind != fault.InvalidArgument || p.Field != "name" {
			t.Errorf("a bad name: %+v", p)
		}
		err = c.Call(ctx, "no.operation", nil, nil)
		equal(t, "an operation that does not exist", fault.KindOf(err), fault.Unsupported)
	})
}

// goFiles writes, reads, lists, moves, copies and removes files.
func goFiles(t *testing.T, s *client.Sandbox) {
	ctx := deadline(t)
	f, err := s.Files.Write(ctx, "d/a.txt", []byte("hello"))
	check(t, err)
	equal(t, "size", f.Size, 5)
	equal(t, "text", must(s.Files.ReadText(ctx, "d/a.txt"))(t), "hello")
	equal(t, "part", string(must(s.Files.Read(ctx, "d/a.txt", client.Range{Offset: -2}))(t)), "lo")
	_, err = s.Files.Write(ctx, "d/a.txt", nil, client.WriteOptions{Absent: true})
	equal(t, "a file that exists", fault.KindOf(err), fault.Conflict)
	must(s.Files.Copy(ctx, "d/a.txt", "d/b.txt"))(t)
	must(s.Files.Move(ctx, "d/b.txt", "d/c.txt"))(t)
	var names []string
	for entry, err := range s.Files.List(ctx, "d") {
		check(t, err)
		names = append(names, entry.Path[strings.LastIndexByte(entry.Path, '/')+1:])
	}
	equal(t, "names", strings.Join(names, " "), "a.txt c.txt")
	dir := t.TempDir()
	check(t, s.Files.Upload(ctx, "testdata", "up"))
	equal(t, "exists", must(s.Files.Exists(ctx, "up"))(t), true)
	check(t, s.Files.Download(ctx, "d/a.txt", dir+"/a"))
	check(t, s.Files.Upload(ctx, dir, "back"))
	equal(t, "there and back", must(s.Files.ReadText(ctx, "back/a"))(t), "hello")
	tree, err := s.Files.ReadTree(ctx, "back", "zip")
	check(t, err)
	packed, err := io.ReadAll(tree)
	check(t, err)
	check(t, tree.Close())
	equal(t, "zip", strings.HasPrefix(string(packed), "PK"), true)
	equal(t, "a folder that is not empty", fault.KindOf(s.Files.Remove(ctx, "d")), fault.Conflict)
	check(t, s.Files.Remove(ctx, "d", client.RemoveOptions{Recursive: true}))
	equal(t, "exists", must(s.Files.Exists(ctx, "d"))(t), false)
}

// TestGoClientConnections runs the scenarios with lost connections, slow readers and several
// clients.
func TestGoClientConnections(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	c := goClient(t, client.Options{})
	s := goSandbox(t, c, client.SandboxOptions{})
	t.Run("reconnect", func(t *testing.T) {
		cut := newFaultProxy(t, strings.TrimPrefix(server.URL, "http://"))
		far := goClient(t, client.Options{
			URL: "http://" + cut.address(), MinBackoff: 10 * time.Millisecond,
		})
		there := must(far.GetSandbox(ctx, s.ID()))(t)
		p, err := there.Start(ctx, "for i in $(seq 40); do echo $i; sleep 0.05; done")
		check(t, err)
		var lines []string
		for line, err := range p.Logs(ctx) {
			check(t, err)
			if lines = append(lines, strings.TrimSpace(line)); len(lines) == 1 {
				cut.setMode(refusing, 0)
				cut.setMode(passing, 0)
			}
		}
		var want []string
		for i := range 40 {
			want = append(want, fmt.Sprint(i+1))
		}
		equal(t, "lines", strings.Join(lines, " "), strings.Join(want, " "))
		if far.Reconnects() < 1 {
			t.Error("the client has not reconnected")
		}
	})
	t.Run("cut_stream", func(t *testing.T) {
		cut := newFaultProxy(t, strings.TrimPrefix(server.URL, "http://"))
		far := goClient(t, client.Options{
			URL: "http://" + cut.address(), MinBackoff: 10 * time.Millisecond,
		})
		there := must(far.GetSandbox(ctx, s.ID()))(t)
		code := "import time\nruns = globals().get('runs', 0) + 1\n" +
			"for i in range(2000):\n  print(i, flush=True)\n  time.sleep(0.001)\nruns"
		var out strings.Builder
		var value string
		next := 1000
		for o, err := range there.Stream(ctx, code) {
			check(t, err)
			switch o.Type {
			case client.OutputStdout:
				if out.WriteString(o.Text); out.Len() > next {
					next += 2000
					cut.setMode(refusing, 0)
					cut.setMode(passing, 0)
				}
			case client.OutputResult:
				value = o.Result.Text()
			}
		}
		var want strings.Builder
		for i := range 2000 {
			fmt.Fprintln(&want, i)
		}
		equal(t, "output", out.String(), want.String())
		equal(t, "the number of runs", value, "1")
		if far.Reconnects() < 2 {
			t.Errorf("the client has reconnected %d times", far.Reconnects())
		}
	})
	t.Run("flow_control", func(t *testing.T) {
		const size = 8_000_000
		slow, err := s.Start(ctx, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size))
		check(t, err)
		got := 0
		for o, err := range slow.Stream(ctx) {
			check(t, err)
			if got == 0 { // this reader has stopped: others are not delayed
				equal(t, "meanwhile", goRun(t, s, "6 * 7"), "42")
			}
			got += len(o.Bytes)
		}
		equal(t, "bytes", got, size)
	})
	t.Run("presence", func(t *testing.T) {
		other := goClient(t, client.Options{})
		s := goSandbox(t, c, client.SandboxOptions{})
		there := must(other.GetSandbox(ctx, s.ID()))(t)
		second, leave := context.WithCancel(ctx)
		defer leave()
		var work sync.WaitGroup
		defer work.Wait()
		begin, step := 0, 0
		for p, err := range s.Presence(ctx) {
			check(t, err)
			switch {
			case step == 0:
				begin, step = p.Viewers, 1
				work.Go(func() { _ = errorOf(there.Presence(second)) })
			case step == 1 && p.Viewers == begin+1:
				step = 2
				leave()
			case step == 2 && p.Viewers == begin:
				step = 3
			}
			if step == 3 {
				break
			}
		}
	})
	t.Run("create_or_get", func(t *testing.T) {
		name := "go-" + s.ID()[:8]
		made := make([]*client.Sandbox, 2)
		var work sync.WaitGroup
		for i := range made {
			work.Go(func() {
				var err error
				if made[i], err = c.Sandbox(ctx, client.SandboxOptions{Name: name}); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		if t.Failed() {
			return
		}
		defer func() { check(t, made[0].Delete(ctx)) }()
		equal(t, "id", made[0].ID(), made[1].ID())
		goRun(t, made[0], "x = 3")
		check(t, made[0].Close()) // it has a name, so it stays
		found := must(c.FindSandbox(ctx, name))(t)
		equal(t, "variable", goRun(t, found, "x"), "3")
	})
	t.Run("share_link", func(t *testing.T) {
		goRun(t, s, "print('shown')")
		link, err := s.Share(ctx, 10*time.Minute)
		check(t, err)
		guest := goClient(t, client.Options{Token: link.Token})
		there := must(guest.GetSandbox(ctx, s.ID()))(t)
		k := must(s.Kernel(ctx, ""))(t)
		text, err := there.Text(ctx, k.ID, 0)
		check(t, err)
		shown, err := io.ReadAll(text)
		check(t, err)
		check(t, text.Close())
		equal(t, "shown", strings.Contains(string(shown), "shown"), true)
		_, err = there.Run(ctx, "1")
		equal(t, "run", fault.KindOf(err), fault.PermissionDenied)
		check(t, s.Unshare(ctx, link.ID))
		late := goClient(t, client.Options{Token: link.Token})
		equal(t, "a revoked link", fault.KindOf(errorOf(late.Sessions(ctx,
			protocol.SessionQuery{}))), fault.Unauthenticated)
	})
	t.Run("preview_link", func(t *testing.T) {
		must(s.Start(ctx, "echo page > index.html; exec python3 -m http.server 8410"))(t)
		check(t, s.WaitPort(ctx, 8410))
		link, err := s.PortLink(ctx, 8410,
			protocol.PortLinkCreate{Visibility: protocol.VisibilityPublic, WaitSeconds: 10})
		check(t, err)
		equal(t, "page", getPreview(t, link.URL, http.StatusOK), "page\n")
		equal(t, "links", len(must(s.PortLinks(ctx))(t)), 1)
		check(t, s.DeletePortLink(ctx, link.ID))
		getPreview(t, link.URL, http.StatusNotFound)
	})
}

// getPreview visits the address of a preview link, and returns the page.
func getPreview(t *testing.T, address string, status int) string {
	t.Helper()
	u, err := url.Parse(address)
	check(t, err)
	req, err := http.NewRequestWithContext(deadline(t), http.MethodGet,
		server.URL+u.RequestURI(), nil)
	check(t, err)
	req.Host = u.Host
	resp, err := http.DefaultTransport.RoundTrip(req)
	check(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(t, err)
	equal(t, "status", resp.StatusCode, status)
	return string(body)
}
