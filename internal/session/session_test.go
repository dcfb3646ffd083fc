package session

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

func TestExecuteAndResume(t *testing.T) {
	r := newRig(t)
	s := r.create()
	if s.State != running.String() || s.Language != "test" || len(s.Channels) != 1 ||
		s.Channels[0].ID != "k1" || s.Channels[0].State != "idle" || len(s.ID) != 28 {
		t.Fatalf("a new session: %+v", s)
	}
	p := r.open()
	at := p.attach(1, s.ID, "k1")
	text, reply := p.run(1, "print hello", func(e *protocol.Execute) { e.Key = "a" })
	if text != "hello" || reply.Status != "ok" || reply.Key != "a" || reply.Count != 1 {
		t.Errorf("got %q, %+v", text, reply)
	}
	var again protocol.Queued
	p.must(protocol.OpExecute, 1, protocol.Execute{Key: "a", Code: "fail"}, &again)
	if again.Cell != 1 || !again.Repeated {
		t.Errorf("the same key: %+v, want cell 1 again", again)
	}
	p.mu.Lock()
	seen := p.view[1].offset
	p.mu.Unlock()
	_ = p.link.Close() // the connection is lost; the next cell uses another link

	q := r.open()
	q.attachAt(7, protocol.Attach{Session: s.ID, Channel: "k1", Epoch: at.Epoch, Offset: seen},
		true)
	if text, _ := q.run(7, "print more"); text != "more" {
		t.Errorf("got %q", text)
	}
	q.mu.Lock()
	for _, rec := range q.view[7].records {
		if rec.Cell == 1 && bytes.Contains(rec.Payload, []byte("hello")) {
			t.Error("received output was sent again")
		}
	}
	q.mu.Unlock()
	if got := must[protocol.SessionList](r, protocol.OpSessionList, nil).Sessions; len(got) != 1 ||
		got[0].ID != s.ID {
		t.Errorf("list: %+v", got)
	}
}

func TestTenantsDoNotSeeEachOther(t *testing.T) {
	r := newRig(t)
	s := r.create()
	for op, params := range map[string]func(id string) any{
		protocol.OpSessionGet:    func(id string) any { return protocol.SessionRef{Session: id} },
		protocol.OpSessionDelete: func(id string) any { return protocol.SessionRef{Session: id} },
		protocol.OpChannelList:   func(id string) any { return protocol.SessionRef{Session: id} },
		protocol.OpChannelOpen: func(id string) any {
			return protocol.ChannelOpen{
				Session: id,
				Kind:    "kernel",
			}
		},
		protocol.OpChannelClose: func(id string) any {
			return protocol.ChannelRef{
				Session: id,
				Channel: "k1",
			}
		},
		protocol.OpFileStat: func(id string) any {
			return protocol.FileRef{
				Session: id,
				Path:    "x",
			}
		},
		protocol.OpFileRead: func(id string) any {
			return protocol.FileRef{
				Session: id,
				Path:    "x",
			}
		},
		protocol.OpFileWrite: func(id string) any {
			return protocol.FileRef{
				Session: id,
				Path:    "x",
			}
		},
		protocol.OpFileList: func(id string) any {
			return protocol.FileRef{
				Session: id,
				Path:    "x",
			}
		},
		protocol.OpFileChanges: func(id string) any {
			return protocol.FileChangesQuery{Session: id}
		},
		protocol.OpFileMkdir: func(id string) any {
			return protocol.FileRef{
				Session: id,
				Path:    "x",
			}
		},
		protocol.OpFileRemove: func(id string) any {
			return protocol.FileRef{
				Session: id,
				Path:    "x",
			}
		},
		protocol.OpTreeRead: func(id string) any {
			return protocol.FileRef{
				Session: id,
				Path:    "x",
			}
		},
		protocol.OpTreeWrite: func(id string) any {
			return protocol.FileRef{
				Session: id,
				Path:    "x",
			}
		},
		protocol.OpFileMove: func(id string) any {
			return protocol.FileMove{FileRef: protocol.FileRef{Session: id, Path: "x"}, To: "y"}
		},
		protocol.OpFileCopy: func(id string) any {
			return protocol.FileMove{FileRef: protocol.FileRef{Session: id, Path: "x"}, To: "y"}
		},
	} {
		_, foreign := call[struct{}](r, mallo, op, params(s.ID))
		_, unknown := call[struct{}](r, mallo, op, params("s_aaaaaaaaaaaaaaaaaaaaaaaaaa"))
		wantKind(t, op, foreign, fault.NotFound, "session")
		if fmt.Sprint(foreign) != fmt.Sprint(unknown) {
			t.Errorf("%s: a foreign session says %v, an unknown one %v", op, foreign, unknown)
		}
	}
	if l, err := call[protocol.SessionList](r, mallo, protocol.OpSessionList, nil); err != nil ||
		len(l.Sessions) != 0 {
		t.Errorf("mallory's list: %+v, %v", l, err)
	}
}

func TestInvalidRequests(t *testing.T) {
	r := newRig(t)
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	long := strings.Repeat("x", 70<<10)
	many := map[string]string{}
	for i := range 129 {
		many[fmt.Sprint("V", i)] = ""
	}
	for name, c := range map[string]struct {
		op     string
		ch     uint32
		params any
		kind   fault.Kind
		field  string
	}{
		"op": {"explode", 0, nil, fault.Unsupported, "op"},
		"language": {
			protocol.OpSessionCreate, 0,
			protocol.SessionCreate{Language: "cobol"},
			fault.InvalidArgument, "language",
		},
		"name": {
			protocol.OpSessionCreate, 0,
			protocol.SessionCreate{Name: long},
			fault.InvalidArgument, "name",
		},
		"name control": {
			protocol.OpSessionCreate, 0,
			protocol.SessionCreate{Name: "a\nb"},
			fault.InvalidArgument, "name",
		},
		"env name": {
			protocol.OpSessionCreate, 0,
			protocol.SessionCreate{Env: map[string]string{"1X": ""}},
			fault.InvalidArgument, "env",
		},
		"env size": {
			protocol.OpSessionCreate, 0,
			protocol.SessionCreate{Env: map[string]string{"X": long}},
			fault.InvalidArgument,
			"env",
		},
		"env count": {
			protocol.OpSessionCreate, 0,
			protocol.SessionCreate{Env: many},
			fault.InvalidArgument, "env",
		},
		"lifetime": {
			protocol.OpSessionCreate, 0,
			protocol.SessionCreate{LifetimeSeconds: 1 << 40},
			fault.InvalidArgument,
			"lifetime_seconds",
		},
		"type": {
			protocol.OpSessionCreate, 0,
			map[string]any{"language": 5},
			fault.InvalidArgument, "language",
		},
		"no object": {protocol.OpSessionCreate, 0, []int{1}, fault.InvalidArgument, "params"},
		"session": {
			protocol.OpSessionGet, 0,
			protocol.SessionRef{Session: "s_x"},
			fault.NotFound, "session",
		},
		"channel": {
			protocol.OpAttach, 9,
			protocol.Attach{Session: s.ID, Channel: "k9"},
			fault.NotFound, "channel",
		},
		"attach ch": {
			protocol.OpAttach, 0,
			protocol.Attach{Session: s.ID, Channel: "k1"},
			fault.InvalidArgument, "ch",
		},
		"attach again": {
			protocol.OpAttach, 1,
			protocol.Attach{Session: s.ID, Channel: "k1"},
			fault.InvalidArgument, "ch",
		},
		"window": {protocol.OpAttach, 9, protocol.Attach{
			Session: s.ID, Channel: "k1",
			Window: 1 << 40,
		}, fault.InvalidArgument, "window"},
		"offset": {protocol.OpAttach, 9, protocol.Attach{
			Session: s.ID, Channel: "k1",
			Offset: 1 << 40,
		}, fault.InvalidArgument, "offset"},
		"detach":     {protocol.OpDetach, 9, nil, fault.InvalidArgument, "ch"},
		"execute ch": {protocol.OpExecute, 9, protocol.Execute{}, fault.InvalidArgument, "ch"},
		"key": {
			protocol.OpExecute, 1,
			protocol.Execute{Key: long},
			fault.InvalidArgument, "key",
		},
		"code": {
			protocol.OpExecute, 1,
			protocol.Execute{Code: strings.Repeat("x", protocol.MaxCode+1)},
			fault.TooLarge,
			"code",
		},
		"timeout": {
			protocol.OpExecute, 1,
			protocol.Execute{TimeoutMS: -1},
			fault.InvalidArgument, "timeout_ms",
		},
		"cursor": {
			protocol.OpComplete, 1,
			protocol.Complete{Code: "ab", Cursor: 3},
			fault.InvalidArgument, "cursor",
		},
		"comm type": {
			protocol.OpComm, 1,
			message.Message{Type: "status"},
			fault.InvalidArgument, "msg_type",
		},
		"comm content": {protocol.OpComm, 1, message.Message{
			Type:    message.CommMsgType,
			Content: []byte("7"),
		}, fault.InvalidArgument, "content"},
		"comm id": {protocol.OpComm, 1, message.Message{
			Type:    message.CommMsgType,
			Content: []byte("{}"),
		}, fault.InvalidArgument, "content.comm_id"},
		"grace": {
			protocol.OpInterrupt, 1,
			protocol.Interrupt{GraceMS: -1},
			fault.InvalidArgument, "grace_ms",
		},
		"signal": {
			protocol.OpSignal, 1,
			protocol.Signal{Signal: "SIGSEGV"},
			fault.InvalidArgument, "signal",
		},
		"signal kernel": {
			protocol.OpSignal, 1,
			protocol.Signal{Signal: "SIGTERM"},
			fault.InvalidArgument, "ch",
		},
		"input": {protocol.OpInput, 1, protocol.InputReply{Cell: 5}, fault.Conflict, ""},
		"kind": {
			protocol.OpChannelOpen, 0,
			protocol.ChannelOpen{Session: s.ID, Kind: "teletype"},
			fault.InvalidArgument, "kind",
		},
		"argv": {
			protocol.OpChannelOpen, 0,
			protocol.ChannelOpen{Session: s.ID, Kind: "process"},
			fault.InvalidArgument, "argv",
		},
		"argv and file": {protocol.OpChannelOpen, 0, protocol.ChannelOpen{
			Session: s.ID,
			Kind:    "process", Argv: []string{"a"}, File: "b",
		}, fault.InvalidArgument, "file"},
		"file ending": {protocol.OpChannelOpen, 0, protocol.ChannelOpen{
			Session: s.ID,
			Kind:    "process", File: "b.cbl",
		}, fault.InvalidArgument, "file"},
		"zero byte": {protocol.OpChannelOpen, 0, protocol.ChannelOpen{
			Session: s.ID,
			Kind:    "process", Argv: []string{"a\x00"},
		}, fault.InvalidArgument, "argv"},
		"path": {
			protocol.OpFileStat, 0,
			protocol.FileRef{Session: s.ID},
			fault.InvalidArgument, "path",
		},
		"mode": {
			protocol.OpFileWrite, 0,
			protocol.FileWrite{FileRef: protocol.FileRef{Session: s.ID, Path: "x"}, Mode: 0o4755},
			fault.InvalidArgument, "mode",
		},
		"upload beside": {
			protocol.OpFileWrite, 0,
			protocol.FileRef{Session: s.ID, Path: "x"},
			fault.Conflict, "",
		},
		"missing file": {
			protocol.OpFileStat, 0,
			protocol.FileRef{Session: s.ID, Path: "nowhere"},
			fault.NotFound, "path",
		},
		"kernel as argv": {protocol.OpChannelOpen, 0, protocol.ChannelOpen{
			Session: s.ID,
			Kind:    "kernel", Argv: []string{"a"},
		}, fault.InvalidArgument, "kind"},
	} {
		wantKind(t, name, p.ask(c.op, c.ch, c.params, nil), c.kind, c.field)
	}
	// An invalid request is answered too, and the link stays open.
	for _, f := range []frame.Frame{
		{Type: frame.Control, Body: []byte("{")},
		{Type: frame.Ack, Channel: 1, Body: []byte("x")},
		{Type: frame.Stdout},
		{Type: frame.Input, Channel: 1, Body: make([]byte, 9)},
		{Type: frame.Input, Channel: 99, Body: make([]byte, 9)},
		{Type: frame.Data, Body: []byte("stray")},
	} {
		if err := p.link.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	p.until("five answers", func() bool { return len(p.news) == 5 })
	if text, _ := p.run(1, "print on"); text != "on" {
		t.Errorf("afterwards: %q", text)
	}
}

func TestKernelLife(t *testing.T) {
	r := newRig(t)
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Env: map[string]string{"SECRET": "42"}})
	p := r.open()
	p.attach(1, s.ID, "k1")
	if text, _ := p.run(1, "env SECRET"); text != "42" {
		t.Errorf("the session's variable: %q", text)
	}
	cell := p.execute(1, "ask")
	p.until("the question", func() bool {
		return strings.Contains(p.view[1].text(frame.KindMessage,
			cell), "input_request")
	})
	p.must(protocol.OpInput, 1, protocol.InputReply{Cell: cell, Value: "Ada "}, nil)
	p.printed(1, "hello Ada false")
	if text, _ := p.run(1, "ask",
		func(e *protocol.Execute) { e.NoInput = true }); text != "hello true" {
		t.Errorf("a cell without input: %q", text)
	}
	var matches struct{ Matches []struct{ Text string } }
	p.must(protocol.OpComplete, 1, protocol.Complete{Code: "pr", Cursor: 2}, &matches)
	if len(matches.Matches) != 1 {
		t.Errorf("completion: %+v", matches)
	}
	var variables struct{ Variables []message.Variable }
	p.must(protocol.OpVariables, 1, nil, &variables)
	if len(variables.Variables) != 1 ||
		variables.Variables[0] != (message.Variable{Name: "x", Type: "int", Value: "3"}) {
		t.Errorf("variables: %+v", variables)
	}

	p.must(protocol.OpComm, 1, message.Message{
		Type:    message.CommMsgType,
		Content: []byte(`{"comm_id":"c1","data":7}`),
	}, nil)
	p.printed(1, `comm {"msg_type":"comm_msg","content":{"comm_id":"c1","data":7}}`)

	cell = p.execute(1, "hang")
	p.printed(1, "hanging")
	waits := p.execute(1, "print never")
	p.must(protocol.OpInterrupt, 1, protocol.Interrupt{}, nil)
	if reply := p.reply(1, cell); reply.EName != "KeyboardInterrupt" {
		t.Errorf("interrupted: %+v", reply)
	}
	if reply := p.reply(1, waits); reply.Status != "aborted" {
		t.Errorf("after the interrupt: %+v", reply)
	}

	if _, reply := p.run(1, "die"); reply.EName != "KernelDied" ||
		!strings.Contains(reply.EValue, "status 3") {
		t.Errorf("a kernel that dies: %+v", reply)
	}
	if text, reply := p.run(1, "env SECRET"); !strings.HasPrefix(text, "42") || reply.Count != 1 {
		t.Errorf("the next kernel: %q, %+v", text, reply)
	}
	p.must(protocol.OpRestart, 1, nil, nil)
	cell = p.execute(1, "deaf")
	p.printed(1, "deaf")
	p.must(protocol.OpInterrupt, 1, protocol.Interrupt{GraceMS: 50}, nil)
	if reply := p.reply(1, cell); reply.EName != "KernelDied" {
		t.Errorf("a kernel that does not listen: %+v", reply)
	}
	if text, _ := p.run(1, "print back"); text != "back" {
		t.Errorf("after the kill: %q", text)
	}
	var past protocol.History
	p.must(protocol.OpHistory, 1, nil, &past)
	var codes []string
	for _, e := range past.Entries {
		codes = append(codes, fmt.Sprintf("%s [%d] %s", e.Code, e.Count, e.Status))
	}
	if got := strings.Join(codes, ", "); !strings.HasPrefix(got,
		"env SECRET [1] ok, ask [2] ok, ") ||
		!strings.HasSuffix(got, "deaf [1] error, print back [1] ok") ||
		strings.Contains(got, "never") {
		t.Errorf("history: %s", got)
	}

	// The default kernel is the warm one, by name, by alias and with the keys of earlier clients.
	for _, r2 := range []protocol.ChannelOpen{
		{},
		{Language: "test"},
		{Language: "test", Key: "kernel-test"},
		{Language: "test", Key: "repl:test"},
		{Language: "test", Key: "run:test"},
	} {
		r2.Session, r2.Kind = s.ID, "kernel"
		if c := must[protocol.Channel](r, protocol.OpChannelOpen, r2); c.ID != "k1" {
			t.Errorf("%+v opened %s, want the default kernel", r2, c.ID)
		}
	}
	// A kernel of another language boots cold, and once for each key.
	open := protocol.ChannelOpen{Session: s.ID, Kind: "kernel", Language: "other", Key: "second"}
	c := must[protocol.Channel](r, protocol.OpChannelOpen, open)
	if same := must[protocol.Channel](r, protocol.OpChannelOpen, open); same.ID != c.ID ||
		c.ID != "k2" {
		t.Errorf("opened twice: %s and %s", c.ID, same.ID)
	}
	p.attach(2, s.ID, c.ID)
	if text, _ := p.run(2, "print two"); text != "two" {
		t.Errorf("the second kernel: %q", text)
	}
	must[struct{}](r, protocol.OpChannelClose, protocol.ChannelRef{Session: s.ID, Channel: c.ID})
	if e := p.exit(2); e.Reason != "closed" {
		t.Errorf("a closed channel: %+v", e)
	}
	if l := must[protocol.ChannelList](r, protocol.OpChannelList,
		protocol.SessionRef{Session: s.ID}); len(l.Channels) != 1 {
		t.Errorf("channels: %+v", l)
	}
}

func TestProcess(t *testing.T) {
	r := newRig(t)
	s := r.create()
	p := r.open()
	c := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "process", Argv: []string{"cat"}, Stdin: true})
	p.attach(1, s.ID, c.ID)
	p.input(1, 5, "one ", false)
	p.input(1, 6, "two", true)
	if e := p.exit(1); e.Code != 0 || e.Reason != "exited" {
		t.Errorf("cat: %+v", e)
	}
	p.mu.Lock()
	if got := p.view[1].text(frame.KindStdout, 0); got != "one two" {
		t.Errorf("cat says %q", got)
	}
	p.mu.Unlock()
	// The exit may come before the acknowledgement of the input that caused it.
	p.until("the acknowledgements", func() bool { return fmt.Sprint(p.acks) == "[5 6]" })

	c = must[protocol.Channel](r, protocol.OpChannelOpen, protocol.ChannelOpen{
		Session: s.ID,
		Kind:    "process", Argv: []string{"sh", "-c", "echo up; exec sleep 1000"},
	})
	p.attach(2, s.ID, c.ID)
	p.printed(2, "up")
	p.must(protocol.OpSignal, 2, protocol.Signal{Signal: "SIGTERM"}, nil)
	if e := p.exit(2); e.Signal != "SIGTERM" || e.Code != 143 {
		t.Errorf("after SIGTERM: %+v", e)
	}
	wantKind(t, "a signal to what has ended",
		p.ask(protocol.OpSignal, 2, protocol.Signal{Signal: "SIGTERM"}, nil), fault.Conflict, "")

	_, err := call[protocol.Channel](r, alice, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "process", Argv: []string{"no-such-program"}})
	if err == nil {
		t.Error("a missing program was started")
	}
	r.upload(s.ID, "dir/prog.t", []byte("echo file $1\n"))
	c = must[protocol.Channel](r, protocol.OpChannelOpen, protocol.ChannelOpen{
		Session: s.ID,
		Kind:    "process", File: "dir/prog.t", Args: []string{"x"},
	})
	p.attach(3, s.ID, c.ID)
	p.exit(3)
	p.printed(3, "file x")
	// Ended channels free their places: more than MaxChannels can be opened in sequence.
	for range protocol.MaxChannels + 5 {
		must[protocol.Channel](r, protocol.OpChannelOpen,
			protocol.ChannelOpen{Session: s.ID, Kind: "process", Argv: []string{"true"}})
		eventually(t, "a process has ended", func() bool {
			l := must[protocol.ChannelList](r, protocol.OpChannelList,
				protocol.SessionRef{Session: s.ID}).Channels
			return l[len(l)-1].State == "exited"
		})
	}
}

// upload writes a file over a new link.
func (r *rig) upload(session, path string, data []byte) protocol.File {
	r.t.Helper()
	p := r.open()
	id := p.send(protocol.OpFileWrite, 0,
		protocol.FileWrite{FileRef: protocol.FileRef{Session: session, Path: path}, Mode: 0o600})
	for rest := data; len(rest) > 0; {
		n := min(len(rest), 64<<10)
		if err := p.link.Send(frame.Frame{Type: frame.Data, Body: rest[:n]}); err != nil {
			r.t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := p.link.Send(frame.Frame{Type: frame.Data, Flags: frame.FlagEnd}); err != nil {
		r.t.Fatal(err)
	}
	reply := p.wait(id)
	if reply.Error != nil {
		r.t.Fatalf("upload: %+v", reply.Error)
	}
	return protocol.File{}
}

// download reads a file over a new link.
func (r *rig) download(session, path string) ([]byte, error) {
	r.t.Helper()
	l, err := r.c.Open(r.ctx, alice)
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	var f protocol.File
	if err := l.Call(r.ctx, protocol.OpFileRead, protocol.FileRef{Session: session, Path: path},
		&f); err != nil {
		return nil, err
	}
	var data []byte
	for {
		f, err := l.Next()
		if err != nil {
			return data, err
		}
		if f.Type == frame.Data {
			data = append(data, f.Body...)
			if f.Flags&frame.FlagEnd != 0 {
				return data, nil
			}
		}
	}
}

func TestFiles(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Pools = map[string]int{} }) // only one machine
	s := r.create()
	data := bytes.Repeat([]byte("0123456789"), 400_000)
	r.upload(s.ID, "a/b.bin", data)
	got, err := r.download(s.ID, "a/b.bin")
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("a file of %d bytes came back with %d, %v", len(data), len(got), err)
	}
	f := must[protocol.File](r, protocol.OpFileStat,
		protocol.FileRef{Session: s.ID, Path: "a/b.bin"})
	if f.Size != int64(len(data)) || f.Mode != 0o600 {
		t.Errorf("stat: %+v", f)
	}
	if _, err := r.download(s.ID, "missing"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing file: %v", err)
	}

	// An incomplete upload writes nothing.
	l, err := r.c.Open(r.ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{r: r, link: l}
	p.send(protocol.OpFileWrite, 0, protocol.FileRef{Session: s.ID, Path: "cut.bin"})
	if err := l.Send(frame.Frame{Type: frame.Data, Body: data[:200_000]}); err != nil {
		t.Fatal(err)
	}
	entries := func() int {
		names, err := os.ReadDir(filepath.Join(r.session(s.ID).machine.(*nativeMachine).root,
			"home"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := 1 // the folder a
	eventually(t, "the upload has begun", func() bool { return entries() > before })
	_ = l.Close()
	eventually(t, "nothing of it is left", func() bool { return entries() == before })
	_, err = call[protocol.File](r, alice, protocol.OpFileStat,
		protocol.FileRef{Session: s.ID, Path: "cut.bin"})
	wantKind(t, "the file of a cut upload", err, fault.NotFound, "path")

	// A failed upload is answered at once, and its remaining data is discarded.
	q := r.open()
	id := q.send(protocol.OpFileWrite, 0, protocol.FileRef{Session: s.ID, Path: "/proc/nothing"})
	for range 40 {
		if err := q.link.Send(frame.Frame{Type: frame.Data, Body: data[:64<<10]}); err != nil {
			t.Fatal(err)
		}
	}
	if reply := q.wait(id); reply.Error == nil {
		t.Error("a file was written below /proc")
	}
}

func TestSandboxLost(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Pools = nil })
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	cell := p.execute(1, "hang")
	p.printed(1, "hanging")
	waits := p.execute(1, "print never")
	victim := r.session(s.ID).machine.(*nativeMachine)
	victim.kill("memory")
	if reply := p.reply(1, cell); reply.Status != "error" || reply.EName != "SandboxLost" ||
		!strings.Contains(reply.EValue, "memory") {
		t.Errorf("the running cell: %+v", reply)
	}
	if reply := p.reply(1, waits); reply.Status != "aborted" {
		t.Errorf("the waiting cell: %+v", reply)
	}
	if e := p.exit(1); e.Reason != "memory" {
		t.Errorf("the channel's end: %+v", e)
	}
	p.until("the event", func() bool {
		n := len(p.news)
		return n > 0 && p.news[n-1].Event == protocol.EventLost &&
			strings.Contains(string(p.news[n-1].Params), `"memory"`)
	})
	got := must[protocol.Session](r, protocol.OpSessionGet, protocol.SessionRef{Session: s.ID})
	if got.State != lost.String() || got.Reason != "memory" || got.Channels[0].State != "dead" {
		t.Errorf("the session: %+v", got)
	}
	wantKind(t, "execute", p.ask(protocol.OpExecute, 1, protocol.Execute{Code: "print x"}, nil),
		fault.SandboxLost, "")
	x := r.session(s.ID)
	x.mu.Lock()
	x.lostAt = time.Time{} // a long time ago
	x.mu.Unlock()
	eventually(t, "it is forgotten", func() bool {
		_, err := call[protocol.Session](r, alice, protocol.OpSessionGet,
			protocol.SessionRef{Session: s.ID})
		return fault.Is(err, fault.NotFound)
	})
	// The viewer can still read the attached log. Then the log is removed.
	p.must(protocol.OpDetach, 1, nil, nil)
	if r.m.Status().Counters["lost_memory"] != 1 {
		t.Error("the loss was not counted")
	}
}

func (r *rig) session(id string) *Session {
	s, err := r.m.Find(alice, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func TestExpireDeleteAndLimit(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxSessions = 2 })
	short := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{LifetimeSeconds: 600, Name: "short"})
	long := r.create()
	_, err := call[protocol.Session](r, alice, protocol.OpSessionCreate, protocol.SessionCreate{})
	wantKind(t, "the third session", err, fault.Exhausted, "")
	if e := err.(*fault.Error); e.RetryAfter <= 0 {
		t.Error("a refusal says when to come back")
	}
	p := r.open()
	p.attach(1, short.ID, "k1")
	p.attach(2, long.ID, "k1")
	must[protocol.Session](r, protocol.OpSessionUpdate, protocol.SessionUpdate{
		Session:         short.ID,
		LifetimeSeconds: new(int64(1)),
	})
	if e := p.exit(1); e.Reason != "expired" {
		t.Errorf("an expired session: %+v", e)
	}
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: long.ID})
	if e := p.exit(2); e.Reason != "deleted" {
		t.Errorf("a deleted session: %+v", e)
	}
	l := must[protocol.SessionList](r, protocol.OpSessionList, nil)
	if len(l.Sessions) != 1 || l.Sessions[0].Reason != "expired" || l.Sessions[0].Name != "short" {
		t.Errorf("list: %+v", l)
	}
	r.create() // a place is free again
}

func TestPause(t *testing.T) {
	r := newRig(t, func(c *Config) { c.PauseAfter = 100 * time.Millisecond })
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	state := func() string {
		return must[protocol.Session](r, protocol.OpSessionGet,
			protocol.SessionRef{Session: s.ID}).State
	}
	eventually(t, "an idle session is paused", func() bool { return state() == paused.String() })
	if text, _ := p.run(1, "print awake"); text != "awake" {
		t.Errorf("got %q", text)
	}
	if n := r.m.Status().Counters["resumes"]; n != 1 {
		t.Errorf("%d resumes, want 1", n)
	}
	eventually(t, "paused again", func() bool { return state() == paused.String() })
	// An attached viewer does not count as work, a process does.
	r.open().attach(1, s.ID, "k1")
	if got := state(); got != paused.String() {
		t.Errorf("attaching has made it %s", got)
	}
	c := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "process", Argv: []string{"sleep", "1000"}})
	pauses := r.m.Status().Counters["pauses"]
	sess := r.session(s.ID)
	for range 5 {
		newJanitor(r.m).pauseIdle(sess, time.Now())
	}
	if got := state(); got != running.String() || r.m.Status().Counters["pauses"] != pauses {
		t.Errorf("with a process that runs it is %s", got)
	}
	must[struct{}](r, protocol.OpChannelClose, protocol.ChannelRef{Session: s.ID, Channel: c.ID})
	eventually(t, "paused at last", func() bool { return state() == paused.String() })
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
}

// TestSlowViewer checks that a viewer that acknowledges nothing receives one window of output, and
// delays neither the kernel nor another viewer.
func TestSlowViewer(t *testing.T) {
	r := newRig(t)
	s := r.create()
	slow, quick := r.open(), r.open()
	slow.attachAt(1, protocol.Attach{Session: s.ID, Channel: "k1", Window: 64 << 10}, false)
	quick.attach(1, s.ID, "k1")
	const size = 8 << 20
	text, reply := quick.run(1, fmt.Sprint("flood ", size))
	if reply.Status != "ok" || len(text) != size {
		t.Errorf("the quick viewer got %d bytes of %d, %+v", len(text), size, reply)
	}
	slow.must(protocol.OpHello, 0, nil, nil)
	slow.mu.Lock()
	v := slow.view[1]
	if v.offset > 256<<10 {
		t.Errorf("the slow viewer was sent %d bytes ahead", v.offset)
	}
	v.acking = true
	at := v.offset
	slow.mu.Unlock()
	if err := slow.link.Send(*slow.ackFrame(1, at)); err != nil {
		t.Fatal(err)
	}
	slow.reply(1, 1)
	slow.mu.Lock()
	defer slow.mu.Unlock()
	if got := len(v.text(frame.KindStdout, 1)); got != size {
		t.Errorf("the slow viewer got %d bytes of %d in the end", got, size)
	}
}

func TestColdWhenRestoreFails(t *testing.T) {
	h := &native{t: t, canRestore: true}
	r := newNode(
		t, h, func(c *Config) { c.Languages = languages(); c.Pools = map[string]int{"test": 1} })
	r.host = h
	p := r.open()
	for i := range warm.MaxFailedRestores + 1 {
		s := r.create()
		p.attach(uint32(i+1), s.ID, "k1")
		if text, _ := p.run(uint32(i+1), "print cold"); text != "cold" {
			t.Errorf("got %q", text)
		}
		must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
	}
	if left, err := os.ReadDir(filepath.Join(r.data, "snapshots")); err != nil || len(left) != 0 {
		t.Errorf("a snapshot that cannot be restored is kept: %v, %v", left, err)
	}
	if c := r.m.Status().Counters; c["restores"] != 0 || c["cold_boots"] < warm.MaxFailedRestores {
		t.Errorf("counters: %v", c)
	}
}

// TestRestoresThatFail checks that a client that resumes or copies a session that cannot be
// restored at the moment gets advice, and that the operator's log has the reason. No state is lost.
func TestRestoresThatFail(t *testing.T) {
	h := &native{t: t, canRestore: true}
	var mu sync.Mutex
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return said.Write(p)
	}), nil))
	r := newNode(t, h, func(c *Config) {
		c.Languages, c.Pools, c.Logger = languages(),
			map[string]int{}, log
	})
	r.host = h
	s := r.create()
	reported := func(what, session string, err error) {
		t.Helper()
		wantKind(t, what, err, fault.Unavailable, "")
		if p := fault.PublicOf(err); !strings.Contains(p.Message, "try again") ||
			strings.Contains(p.Message, "CPU") || p.RetryAfter == 0 {
			t.Errorf("%s: the caller gets %+v", what, p)
		}
		mu.Lock()
		defer mu.Unlock()
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, session) && strings.Contains(line, "kind=internal") &&
				strings.Contains(line, "the snapshot does not fit this CPU") {
				return
			}
		}
		t.Errorf("%s: the log does not report it:\n%s", what, said.String())
	}
	_, err := call[protocol.Forks](r, alice, protocol.OpFork, protocol.SessionFork{Session: s.ID})
	reported("a fork", "origin="+s.ID, err)
	must[protocol.Session](r, protocol.OpHibernate, protocol.SessionRef{Session: s.ID})
	_, err = call[protocol.Session](r, alice, protocol.OpResume, protocol.SessionRef{Session: s.ID})
	reported("a wake", "session="+s.ID, err)
	if v := must[protocol.Session](r, protocol.OpSessionGet,
		protocol.SessionRef{Session: s.ID}); v.State != hibernated.String() {
		t.Errorf("afterwards it is %s", v.State)
	}
	if n := r.m.Status().Counters["restores_failed"]; n < 2 {
		t.Errorf("%d were counted", n)
	}
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestStatusAndClose(t *testing.T) {
	r := newRig(t)
	r.create()
	st := must[protocol.NodeStatus](r, protocol.OpStatus, nil)
	if st.Sessions != 1 || len(st.Languages) != 2 || st.Pool.Size != 1 || st.Pool.Claims != 1 ||
		st.Counters["sessions_created"] != 1 {
		t.Errorf("status: %+v", st)
	}
	p := r.open()
	s := r.create()
	p.attach(1, s.ID, "k1")
	p.execute(1, "hang")
	p.printed(1, "hanging")
	ctx, cancel := context.WithTimeout(r.ctx, 5*time.Minute)
	defer cancel()
	if err := r.m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := call[protocol.Session](r, alice, protocol.OpSessionCreate, protocol.SessionCreate{})
	wantKind(t, "a create after the end", err, fault.Restarting, "")
}

func TestTooManyRequests(t *testing.T) {
	const maxRequests = 64 // for each link
	r := newRig(t)
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.execute(1, "deaf")
	p.printed(1, "deaf")
	// Completions wait for the driver, which is busy.
	var ids []uint64
	for range maxRequests + 10 {
		ids = append(ids, p.send(protocol.OpComplete, 1, protocol.Complete{Code: "x"}))
	}
	refused := 0
	for _, id := range ids[maxRequests:] {
		if reply := p.wait(id); reply.Error != nil && reply.Error.Kind == fault.Exhausted {
			refused++
		}
	}
	if refused != 10 {
		t.Errorf("%d requests were refused, want 10", refused)
	}
}
