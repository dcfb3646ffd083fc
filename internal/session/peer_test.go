package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
	"github.com/sandgate/sandgate/stream"
)

// rig is a node with a manager, and a client of it.
type rig struct {
	// mates reports that other nodes of the test continue when it stops.
	mates bool
	t     testing.TB
	ctx   context.Context
	m     *Manager
	host  *native
	c     *noderpc.Client
	data  string
	stop  func()
}

var (
	alice = noderpc.Principal{Tenant: "alice", Subject: "a"}
	mallo = noderpc.Principal{Tenant: "mallory", Subject: "m"}
)

func newRig(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	h := &native{t: t}
	r := newNode(
		t, h, append(
			[]func(*Config){func(c *Config) {
				c.Languages = languages()
				c.Pools = map[string]int{
					"test": 1,
				}
			}}, change...)...)
	r.host = h
	return r
}

// newNode starts a node on a socket. The end of the test stops the node and checks for leaks.
func newNode(t testing.TB, backend sandbox.Backend, change ...func(*Config)) *rig {
	t.Helper()
	data := t.TempDir()
	cfg := Config{
		Backend: backend, DataDir: data, Tick: 20 * time.Millisecond,
		ClaimWait: time.Minute, Logger: slog.New(slog.NewTextHandler(testLog{t}, nil)),
	}
	for _, f := range change {
		f(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := NewHandler(m, m.cfg)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(data, "node.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	serving, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- noderpc.Serve(serving, ln, handler, nil) }()
	r := &rig{t: t, ctx: ctx, m: m, data: data, c: noderpc.NewClient(noderpc.Unix(path),
		noderpc.ClientOptions{})}
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			_ = r.c.Close()
			end()
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
			if err := m.ConsistencyCheck(); err != nil {
				t.Errorf("before the end: %v", err)
			}
			if err := m.warm.ConsistencyCheck(); err != nil {
				t.Error(err)
			}
			if err := m.Close(ctx); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := m.ConsistencyCheck(); err != nil {
				t.Errorf("after the end: %v", err)
			}
			cancel()
			if !r.mates {
				noLeaks(t)
			}
			if _, err := os.Stat(filepath.Join(data, "logs")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("logs remain: %v", err)
			}
			if h, ok := backend.(*native); ok {
				h.mu.Lock()
				defer h.mu.Unlock()
				if h.live != 0 {
					t.Errorf("%d machines remain", h.live)
				}
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	if testing.Verbose() {
		fmt.Fprint(os.Stderr, string(p))
	}
	return len(p), nil
}

// ours reports whether a goroutine's stack contains a function of the tested packages.
func ours(stack string) bool {
	return slices.ContainsFunc(marks(),
		func(mark string) bool { return strings.Contains(stack, mark) })
}

// marks returns the texts in stacks of goroutines of this package and its helpers. They are derived
// from types, so that they change with a package that moves. TestLeakCheck compares them with
// running goroutines.
func marks() []string {
	all := []string{"internal/nodeapi.(*"} // listed as text, because it imports this package
	for _, v := range []any{
		Manager{},
		migrate.Migrator{},
		queue.Queue{},
		client.Client{},
		stream.Log{},
		pool.Pool[*warm.Instance]{},
		warm.Manager{},
		noderpc.Client{},
		yamux.Session{},
	} {
		all = append(all, reflect.TypeOf(v).PkgPath()+".(*")
	}
	return all
}

// TestLeakCheck checks that the leak check finds the goroutines of a running node, in each package
// that always has some.
func TestLeakCheck(t *testing.T) {
	r := newRig(t)
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	stacks := goroutines()
	for _, v := range []any{
		Manager{},
		client.Client{},
		pool.Pool[*warm.Instance]{},
		yamux.Session{},
	} {
		if mark := reflect.TypeOf(v).PkgPath() + ".(*"; !strings.Contains(stacks, mark) ||
			!ours(mark) {
			t.Errorf("no goroutine has %s", mark)
		}
	}
	if !strings.Contains(stacks, "internal/nodeapi.(*") {
		t.Error("no goroutine is of package nodeapi")
	}
}

func goroutines() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

func noLeaks(t testing.TB) {
	t.Helper()
	var stacks string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		stacks = goroutines()
		leak := false
		for _, g := range strings.Split(stacks, "\n\n") {
			if strings.Contains(g, "testing.tRunner") || strings.Contains(g, "testing.(*T).Run(") {
				continue // the test itself
			}
			leak = leak || ours(g)
		}
		if !leak {
			return
		}
	}
	t.Errorf("goroutines remain:\n%s", stacks)
}

// call makes one request over a new link.
func call[T any](r *rig, p noderpc.Principal, op string, params any) (T, error) {
	var result T
	return result, r.c.Call(r.ctx, p, op, params, &result)
}

func must[T any](r *rig, op string, params any) T {
	r.t.Helper()
	v, err := call[T](r, alice, op, params)
	if err != nil {
		r.t.Fatalf("%s: %v", op, err)
	}
	return v
}

func (r *rig) create() protocol.Session {
	r.t.Helper()
	return must[protocol.Session](r, protocol.OpSessionCreate, protocol.SessionCreate{})
}

// view is the received part of one channel.
type view struct {
	offset  int64 // the end of the received output
	acking  bool
	records []frame.Record
}

// peer is a client's link with a reader.
type peer struct {
	r    *rig
	link *noderpc.Link
	mu   sync.Mutex // guards all below
	cond *sync.Cond
	next uint64
	back map[uint64]protocol.Reply
	news []protocol.Reply
	// ports are the port events. In a native session they are events of the host's ports.
	ports []protocol.Reply
	acks  []uint64 // for input
	view  map[uint32]*view
	err   error
}

func (r *rig) open() *peer { return r.openAs(alice) }

func (r *rig) openAs(who noderpc.Principal) *peer {
	r.t.Helper()
	l, err := r.c.Open(r.ctx, who)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &peer{r: r, link: l, back: map[uint64]protocol.Reply{}, view: map[uint32]*view{}}
	p.cond = sync.NewCond(&p.mu)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read()
	}()
	r.t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return p
}

func (p *peer) read() {
	for {
		f, err := p.link.Next()
		p.mu.Lock()
		if err != nil {
			p.err = err
			p.cond.Broadcast()
			p.mu.Unlock()
			return
		}
		var ack *frame.Frame
		switch f.Type {
		case frame.Control:
			var reply protocol.Reply
			if err := json.Unmarshal(f.Body, &reply); err != nil {
				p.r.t.Errorf("a reply is no JSON: %v", err)
			}
			if reply.Event == protocol.EventPort {
				p.ports = append(p.ports, reply)
			} else if reply.Event != "" || reply.ID == 0 {
				p.news = append(p.news, reply)
			} else {
				p.back[reply.ID] = reply
			}
		case frame.Ack:
			p.acks = append(p.acks, binary.BigEndian.Uint64(f.Body))
		case frame.Records:
			ack = p.take(f)
		}
		p.cond.Broadcast()
		p.mu.Unlock()
		if ack != nil {
			_ = p.link.Send(*ack)
		}
	}
}

func (p *peer) take(f frame.Frame) *frame.Frame {
	offset, records, err := frame.ParseRecords(f.Body)
	if err != nil {
		p.r.t.Error(err)
		return nil
	}
	v := p.view[f.Channel]
	if v == nil {
		p.r.t.Errorf("records for channel %d came before its attach was answered", f.Channel)
		return nil
	}
	gap := len(records) > 4 && frame.Kind(records[4]) == frame.KindGap
	if v.offset >= 0 && offset != v.offset && !gap {
		p.r.t.Errorf("channel %d: records at %d, expected %d", f.Channel, offset, v.offset)
	}
	v.offset = offset
	for len(records) > 0 {
		var rec frame.Record
		if rec, records, err = frame.ParseRecord(records); err != nil {
			p.r.t.Error(err)
			return nil
		}
		rec.Payload = append([]byte(nil), rec.Payload...)
		if rec.Kind != frame.KindGap && rec.Kind != frame.KindRestore {
			v.offset += rec.Size()
		}
		v.records = append(v.records, rec)
	}
	if !v.acking {
		return nil
	}
	return p.ackFrame(f.Channel, v.offset)
}

func (p *peer) ackFrame(ch uint32, offset int64) *frame.Frame {
	return &frame.Frame{Type: frame.Ack, Channel: ch, Body: binary.BigEndian.AppendUint64(nil,
		uint64(offset))}
}

// send sends a request and returns its number.
func (p *peer) send(op string, ch uint32, params any) uint64 {
	p.r.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		p.r.t.Fatal(err)
	}
	p.mu.Lock()
	p.next++
	id := p.next
	p.mu.Unlock()
	body, _ := json.Marshal(protocol.Request{ID: id, Op: op, Ch: ch, Params: raw})
	if err := p.link.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
		p.r.t.Fatalf("%s: %v", op, err)
	}
	return id
}

// until waits for a condition. It checks the condition while it holds the lock.
func (p *peer) until(what string, ok func() bool) {
	p.r.t.Helper()
	late := time.AfterFunc(2*time.Minute, p.cond.Broadcast)
	defer late.Stop()
	begin := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !ok() {
		if p.err != nil || time.Since(begin) > 2*time.Minute {
			for ch, v := range p.view {
				p.r.t.Logf("channel %d: %s", ch, v)
			}
			p.r.t.Fatalf("waiting for %s: %v", what, p.err)
		}
		p.cond.Wait()
	}
}

func (p *peer) wait(id uint64) protocol.Reply {
	p.r.t.Helper()
	var reply protocol.Reply
	p.until("a reply", func() bool {
		var ok bool
		reply, ok = p.back[id]
		return ok
	})
	return reply
}

func (p *peer) ask(op string, ch uint32, params, result any) error {
	p.r.t.Helper()
	reply := p.wait(p.send(op, ch, params))
	if reply.Error != nil {
		return reply.Error.Err(op)
	}
	if result != nil {
		if err := json.Unmarshal(reply.Result, result); err != nil {
			p.r.t.Fatal(err)
		}
	}
	return nil
}

func (p *peer) must(op string, ch uint32, params, result any) {
	p.r.t.Helper()
	if err := p.ask(op, ch, params, result); err != nil {
		p.r.t.Fatalf("%s: %v", op, err)
	}
}

// attach attaches from the beginning and acknowledges all output.
func (p *peer) attach(ch uint32, session, channel string) protocol.Attached {
	p.r.t.Helper()
	return p.attachAt(ch, protocol.Attach{Session: session, Channel: channel}, true)
}

func (p *peer) attachAt(ch uint32, a protocol.Attach, acking bool) protocol.Attached {
	p.r.t.Helper()
	p.mu.Lock()
	p.view[ch] = &view{offset: -1, acking: acking}
	p.mu.Unlock()
	var at protocol.Attached
	p.must(protocol.OpAttach, ch, a, &at)
	return at
}

// execute queues code.
func (p *peer) execute(ch uint32, code string, change ...func(*protocol.Execute)) uint32 {
	p.r.t.Helper()
	e := protocol.Execute{Code: code}
	for _, f := range change {
		f(&e)
	}
	var q protocol.Queued
	p.must(protocol.OpExecute, ch, e, &q)
	return q.Cell
}

// text returns the output of a channel; a cell of 0 means everything.
func (v *view) text(kind frame.Kind, cell uint32) string {
	var b strings.Builder
	for _, r := range v.records {
		if r.Kind == kind && (cell == 0 || r.Cell == cell) {
			b.Write(r.Payload)
		}
	}
	return b.String()
}

// reply returns a cell's execute_reply, if it has arrived.
func (v *view) reply(cell uint32) (message.ExecuteReply, bool) {
	for _, r := range v.records {
		var m message.Message
		if r.Kind != frame.KindMessage || r.Cell != cell || json.Unmarshal(r.Payload, &m) != nil ||
			m.Type != message.ExecuteReplyType {
			continue
		}
		var e message.ExecuteReply
		if json.Unmarshal(m.Content, &e) == nil {
			return e, true
		}
	}
	return message.ExecuteReply{}, false
}

// exit returns the channel's final record, if it has arrived.
func (v *view) exit() (protocol.Exit, bool) {
	if len(v.records) == 0 {
		return protocol.Exit{}, false
	}
	last := v.records[len(v.records)-1]
	var e protocol.Exit
	return e, last.Kind == frame.KindExit && json.Unmarshal(last.Payload, &e) == nil
}

func (v *view) String() string {
	var b strings.Builder
	for _, r := range v.records {
		fmt.Fprintf(&b, "\n\t%d/%d %.100s", r.Kind, r.Cell, r.Payload)
	}
	return b.String()
}

// run executes code and waits for its end.
func (p *peer) run(ch uint32, code string,
	change ...func(*protocol.Execute),
) (string, message.ExecuteReply) {
	p.r.t.Helper()
	cell := p.execute(ch, code, change...)
	reply := p.reply(ch, cell)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view[ch].text(frame.KindStdout, cell), reply
}

func (p *peer) reply(ch, cell uint32) message.ExecuteReply {
	p.r.t.Helper()
	var reply message.ExecuteReply
	p.until(fmt.Sprintf("the reply of cell %d", cell), func() bool {
		var ok bool
		reply, ok = p.view[ch].reply(cell)
		return ok
	})
	return reply
}

func (p *peer) printed(ch uint32, text string) {
	p.r.t.Helper()
	p.until("output "+text, func() bool {
		return strings.Contains(p.view[ch].text(frame.KindStdout,
			0), text)
	})
}

func (p *peer) exit(ch uint32) protocol.Exit {
	p.r.t.Helper()
	var e protocol.Exit
	p.until("the end of the channel", func() bool {
		var ok bool
		e, ok = p.view[ch].exit()
		return ok
	})
	return e
}

// input sends an Input frame.
func (p *peer) input(ch uint32, sequence uint64, text string, end bool) {
	p.r.t.Helper()
	f := frame.Frame{
		Type: frame.Input, Channel: ch,
		Body: append(binary.BigEndian.AppendUint64(nil, sequence), text...),
	}
	if end {
		f.Flags = frame.FlagEnd
	}
	if err := p.link.Send(f); err != nil {
		p.r.t.Fatal(err)
	}
}

func wantKind(t testing.TB, what string, err error, kind fault.Kind, field string) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Field != field {
		t.Errorf("%s: %v, want %s of %q", what, err, kind, field)
	}
}

// eventually waits for a condition that has no event of its own.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("this did not happen in time: %s", what)
		}
	}
}

// diskNow copies a data folder as it would be left if the node were killed at this moment. It begins
// again if the node removes a file meanwhile.
func diskNow(t testing.TB, data string) string {
	t.Helper()
	for {
		dead := t.TempDir()
		err := os.CopyFS(dead, os.DirFS(data))
		if err == nil {
			return dead
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
