package channels

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// fakeKernel is a kernel of a node, with its log.
type fakeKernel struct {
	mu    sync.Mutex // guards all fields below
	epoch uint64
	log   []frame.Record
	state string
	lists int // answers about the state
	links []*fakeLink
}

func newFakeKernel() *fakeKernel { return &fakeKernel{epoch: 1, state: "idle"} }

// fakeLink is a link to a fakeKernel.
type fakeLink struct {
	k      *fakeKernel
	frames chan frame.Frame
	ended  chan struct{}
	once   sync.Once
	number uint32 // the number of the attached channel
}

func (k *fakeKernel) open() *fakeLink {
	l := &fakeLink{k: k, frames: make(chan frame.Frame, 1000), ended: make(chan struct{})}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.links = append(k.links, l)
	return l
}

// end returns the offset at the end of the log.
func (k *fakeKernel) end() (at int64) {
	for _, r := range k.log {
		at += r.Size()
	}
	return at
}

// add appends a record, and sends it to all links.
func (k *fakeKernel) add(records ...frame.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range records {
		at := k.end()
		k.log = append(k.log, r)
		for _, l := range k.links {
			l.record(at, r)
		}
	}
}

// takeOver ends all links. The kernel continues with another log in the state of a copy.
func (k *fakeKernel) takeOver(state string, log ...frame.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.epoch++
	k.state, k.log = state, append(log, event("recovered"), event("taken_over"))
	for _, l := range k.links {
		_ = l.Close()
	}
	k.links = nil
}

func (k *fakeKernel) set(state string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = state
}

func (k *fakeKernel) listed() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lists
}

func (l *fakeLink) record(at int64, r frame.Record) {
	if l.number != 0 {
		body := frame.AppendRecord(binary.BigEndian.AppendUint64(nil, uint64(at)), r)
		l.frames <- frame.Frame{Type: frame.Records, Channel: l.number, Body: body}
	}
}

func (l *fakeLink) Next() (frame.Frame, error) {
	select {
	case f := <-l.frames:
		return f, nil
	case <-l.ended:
		return frame.Frame{}, io.EOF
	}
}

func (l *fakeLink) Close() error { l.once.Do(func() { close(l.ended) }); return nil }

func (l *fakeLink) Send(all ...frame.Frame) error {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	for _, f := range all {
		var q protocol.Request
		if f.Type == frame.Control && json.Unmarshal(f.Body, &q) == nil && q.ID != 0 {
			l.answer(q)
		}
	}
	return nil
}

func (l *fakeLink) answer(q protocol.Request) {
	k := l.k
	view := protocol.Channel{
		ID: "k1", Kind: "kernel", State: k.state, Epoch: k.epoch, End: k.end(),
	}
	var result any = struct{}{}
	from := 0
	switch q.Op {
	case protocol.OpAttach:
		var p protocol.Attach
		_ = json.Unmarshal(q.Params, &p)
		at := int64(0)
		if p.Offset < 0 {
			for ; view.End-at > -p.Offset; from++ {
				at += k.log[from].Size()
			}
		}
		result = protocol.Attached{Epoch: k.epoch, Offset: at, Channel: view}
	case protocol.OpChannelList:
		k.lists++
		result = protocol.ChannelList{Channels: []protocol.Channel{{ID: "k0"}, view}}
	}
	if q.Op == protocol.OpComm {
		return // it never answers
	}
	raw, _ := json.Marshal(result)
	body, _ := json.Marshal(protocol.Reply{ID: q.ID, Result: raw})
	l.frames <- frame.Frame{Type: frame.Control, Body: body}
	if q.Op != protocol.OpAttach {
		return
	}
	l.number = q.Ch
	at := int64(0)
	for i, r := range k.log {
		if i >= from {
			l.record(at, r)
		}
		at += r.Size()
	}
}

// follower is a client with a session id, and what it has received.
type follower struct {
	t      *testing.T
	client string
	send   chan []byte
	done   chan Position
	asked  int

	mu       sync.Mutex // guards received
	received []string   // the type, the id of the parent, and a part of the content
}

// following is a connection of a follower.
type following struct {
	*follower
	in <-chan []byte
}

func (f following) Read() ([]byte, bool, error) {
	data, ok := <-f.in
	if !ok {
		return nil, false, io.EOF
	}
	return data, false, nil
}

func (f *follower) Confirm(func()) {}

func (f *follower) Write(data []byte, _ bool) error {
	var m struct {
		Channel string
		Header  wire.Header     `json:"header"`
		Parent  wire.Header     `json:"parent_header"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	var content struct {
		Text   string
		State  string `json:"execution_state"`
		EName  string
		Status string
	}
	if err := json.Unmarshal(m.Content, &content); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = append(f.received, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s%.9s %s",
		m.Channel, m.Header.Type, m.Parent.ID, content.Status, content.State, content.Text,
		content.EName)), " "))
	return nil
}

// connect serves a connection of the client that continues after an earlier one.
func (f *follower) connect(k *fakeKernel, at Position) {
	f.t.Helper()
	c, err := Attach(context.Background(), k.open(), Options{
		Channel: "k1", Client: f.client, Buffers: new(Buffers), Resume: at,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	in, done := make(chan []byte, 10), make(chan Position, 1)
	f.send, f.done = in, done
	go func() {
		at, _ := c.Serve(following{f, in})
		done <- at
	}()
}

// synchronize returns once everything that the client has sent before is handled.
func (f *follower) synchronize() {
	f.t.Helper()
	f.asked++
	f.send <- fmt.Appendf(nil, `{"header":{"msg_id":"q%d","msg_type":"comm_info_request"}}`, f.asked)
	f.await(fmt.Sprintf("status q%d idle", f.asked))
}

func (f *follower) execute(id string) {
	f.send <- fmt.Appendf(nil, `{"channel":"shell","header":{"msg_id":%q,"session":%q,
		"msg_type":"execute_request"},"content":{"code":"1"}}`, id, f.client)
}

// with returns the received messages that contain text.
func (f *follower) with(text string) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.received {
		if strings.Contains(m, text) {
			all = append(all, m)
		}
	}
	return all
}

// await waits for a message.
func (f *follower) await(text string) {
	f.t.Helper()
	testenv.Eventually(f.t, text, func() bool { return len(f.with(text)) > 0 })
}

func event(name string) frame.Record {
	return frame.Record{Kind: frame.KindEvent, Payload: fmt.Appendf(nil, `{"event":%q}`, name)}
}

// says is a message of a cell in the log.
func says(cell uint32, kind string, content any) frame.Record {
	raw, _ := json.Marshal(message.Message{Type: kind, Content: encode(content)})
	return frame.Record{Kind: frame.KindMessage, Cell: cell, Payload: raw}
}

func begins(cell uint32, key string) frame.Record {
	return says(cell, message.ExecuteInputType, message.ExecuteInput{Key: key})
}

func ends(cell uint32, key, status, name string) frame.Record {
	return says(cell, message.ExecuteReplyType, message.ExecuteReply{
		Key: key, Status: status, EName: name,
	})
}

func prints(text string) frame.Record {
	return frame.Record{Kind: frame.KindStdout, Payload: []byte(text)}
}

// lostCell has the messages that the client a gets for the cell m1 if it is lost.
const lostCell = "iopub status m1 busy|iopub error m1 SandboxLost|" +
	"shell execute_reply m1 error SandboxLost|iopub status m1 idle"

// TestCellsOfFailedNodes: after a take-over a client gets an error for each cell that the copy does
// not know, once the kernel is idle. A cell that the copy knows ends as the log says.
func TestCellsOfFailedNodes(t *testing.T) {
	key := keyOf(wire.Header{Session: "a", ID: "m1"})
	other := keyOf(wire.Header{Session: "b", ID: "m9"})
	long := prints(strings.Repeat("x", replaySize))
	for name, c := range map[string]struct {
		state string         // the kernel's state in the copy
		log   []frame.Record // the log of the copy
		late  []frame.Record // records after the client has connected; then the kernel is idle
		want  string         // the messages for m1
	}{
		"unknown": {state: "idle", want: lostCell},
		"unknown, the log is long": {
			state: "idle", log: []frame.Record{long, long}, want: lostCell,
		},
		"unknown, another cell runs": {
			state: "busy", log: []frame.Record{begins(1, other)},
			late: []frame.Record{ends(1, other, "ok", "")}, want: lostCell,
		},
		"its number is another's": {
			state: "idle", log: []frame.Record{begins(1, other), ends(1, other, "ok", "")},
			want: lostCell,
		},
		"known and running": {
			state: "busy", log: []frame.Record{begins(1, key)},
			late: []frame.Record{ends(1, key, "ok", "")},
			want: "iopub status m1 busy|iopub execute_input m1|iopub clear_output m1|" +
				"iopub status m1 busy|shell execute_reply m1 ok|iopub status m1 idle",
		},
		"known and ended": {
			state: "idle", log: []frame.Record{begins(1, key), ends(1, key, "ok", "")},
			want: "iopub status m1 busy|iopub execute_input m1|iopub clear_output m1|" +
				"shell execute_reply m1 ok|iopub status m1 idle",
		},
		"known and ended long ago": {
			state: "idle", log: []frame.Record{begins(1, key), ends(1, key, "ok", ""), long, long},
			want: "iopub status m1 busy|iopub execute_input m1|iopub clear_output m1|" +
				"shell execute_reply m1 ok|iopub status m1 idle",
		},
		"known as lost": { // the queue of the copy reports it
			state: "idle", log: []frame.Record{
				says(1, message.ErrorType, message.Error{EName: "SandboxLost"}),
				ends(1, key, "error", "SandboxLost"),
			},
			want: "iopub error m1 SandboxLost|shell execute_reply m1 error SandboxLost|" +
				"iopub status m1 idle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFakeKernel()
			f := &follower{t: t, client: "a"}
			f.connect(k, Position{})
			f.execute("m1")
			f.synchronize()
			k.takeOver(c.state, c.log...)
			f.connect(k, <-f.done)
			if c.state == "busy" {
				testenv.Eventually(t, "a question about the state", func() bool { return k.listed() > 0 })
				k.set("idle")
			}
			k.add(c.late...)
			f.await("status m1 idle")
			if got := strings.Join(f.with(" m1"), "|"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			f.execute("m2") // a new cell
			f.synchronize()
			k.add(begins(7, keyOf(wire.Header{Session: "a", ID: "m2"})))
			f.await("execute_input m2")
			k.add(ends(7, keyOf(wire.Header{Session: "a", ID: "m2"}), "ok", ""))
			f.await("status m2 idle")
			k.add(prints("end"))
			f.await("end")
			if n := len(f.with("execute_reply m1")); n != 1 {
				t.Errorf("%d replies", n)
			}
			if got := f.with("reply m2"); len(got) != 1 || !strings.HasSuffix(got[0], "m2 ok") {
				t.Errorf("the cell after the take-over: %s", got)
			}
			close(f.send)
			if at := <-f.done; at.Kept() {
				t.Errorf("cells are left: %+v", at.left)
			}
		})
	}
}

// TestOthersAfterFailures: a client gets no ends of cells that another client has asked for, also
// when it connects after the take-over, and none of cells that it sends then.
func TestOthersAfterFailures(t *testing.T) {
	k := newFakeKernel()
	a, b, late := &follower{t: t, client: "a"}, &follower{t: t, client: "b"},
		&follower{t: t, client: "c"}
	a.connect(k, Position{})
	b.connect(k, Position{})
	a.execute("m1")
	b.execute("m2")
	for _, f := range []*follower{a, b} {
		f.synchronize()
	}
	k.takeOver("idle")
	late.connect(k, Position{})
	late.execute("m3")
	late.synchronize()
	a.connect(k, <-a.done)
	b.connect(k, <-b.done)
	a.await("status m1 idle")
	b.await("status m2 idle")
	k.add(prints("end"))
	for f, want := range map[*follower]string{a: "m1", b: "m2", late: ""} {
		f.await("end")
		got := f.with("SandboxLost")
		if want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 2 || !strings.Contains(got[0], want) || !strings.Contains(got[1], want) {
			t.Errorf("%s got %s", f.client, got)
		}
	}
}

// TestDoubtStays: cells stay in doubt over connections that end before the kernel is idle.
func TestDoubtStays(t *testing.T) {
	k := newFakeKernel()
	f := &follower{t: t, client: "a"}
	f.connect(k, Position{})
	f.execute("m1")
	f.synchronize()
	k.takeOver("busy", begins(1, "x"))
	f.connect(k, <-f.done)
	testenv.Eventually(t, "a question about the state", func() bool { return k.listed() > 0 })
	close(f.send)
	at := <-f.done
	k.set("idle")
	k.add(ends(1, "x", "ok", ""))
	f.connect(k, at)
	f.await("status m1 idle")
	if got := strings.Join(f.with(" m1"), "|"); got != lostCell {
		t.Errorf("got %s", got)
	}
}

// TestReconnectedCells: a cell that runs on when its client connects again gets its reply, and one
// whose end is older than the replayed part of the log is forgotten.
func TestReconnectedCells(t *testing.T) {
	k := newFakeKernel()
	f := &follower{t: t, client: "a"}
	f.connect(k, Position{})
	f.execute("m1")
	f.execute("m2")
	f.synchronize()
	close(f.send)
	at := <-f.done
	if !at.Kept() {
		t.Fatal("the cells are not kept")
	}
	key := func(id string) string { return keyOf(wire.Header{Session: "a", ID: id}) }
	k.add(begins(1, key("m1")), ends(1, key("m1"), "ok", ""),
		prints(strings.Repeat("x", replaySize)), begins(2, key("m2")))
	k.set("busy")
	f.connect(k, at)
	f.await("execute_input m2")
	close(f.send)
	at = <-f.done
	f.connect(k, at)
	k.add(ends(2, key("m2"), "ok", ""))
	f.await("execute_reply m2 ok")
	k.set("idle")
	close(f.send)
	f.connect(k, <-f.done)
	f.synchronize()
	close(f.send)
	if at := <-f.done; at.Kept() {
		t.Errorf("cells are left: %+v", at.left)
	}
	if got := f.with("SandboxLost"); len(got) > 0 {
		t.Errorf("the client got %s", got)
	}
}

// TestCommsOfFailedNodes: a message for a comm that the node has not answered is answered when the
// link to the node ends, because a widget waits for it.
func TestCommsOfFailedNodes(t *testing.T) {
	k := newFakeKernel()
	f := &follower{t: t, client: "a"}
	f.connect(k, Position{})
	f.send <- []byte(`{"header":{"msg_id":"m1","session":"a","msg_type":"comm_msg"},
		"content":{"comm_id":"c","data":{}}}`)
	f.synchronize()
	if got := f.with(" m1"); len(got) > 0 {
		t.Fatalf("an early answer: %s", got)
	}
	k.takeOver("idle")
	<-f.done
	const want = "iopub stream m1 the conne|iopub status m1 busy|iopub status m1 idle"
	if got := strings.Join(f.with(" m1"), "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestLeft: the cells that a client leaves are bounded, and those of two connections are joined.
func TestLeft(t *testing.T) {
	asked := map[string]request{}
	for i := range maxAsked {
		asked[fmt.Sprint(i)] = request{header: make(json.RawMessage, 1024)}
	}
	l := leave(asked)
	if l.size > maxLeft || l.size < maxLeft-2048 || leave(nil) != nil {
		t.Errorf("%d bytes are left", l.size)
	}
	one := Position{left: leave(map[string]request{"a": {}})}
	two := Position{Epoch: 1, left: leave(map[string]request{"b": {}})}
	both := two.Join(one)
	if len(both.left.cells) != 2 || both.Epoch != 1 || both.Size() != one.Size()+two.Size() {
		t.Errorf("both are %+v", both)
	}
	if p := both.CellsOnly(); p.known() || p.left != both.left {
		t.Errorf("the cells are %+v", p)
	}
	if p := (Position{}).Join(one); p != one || !p.Kept() || p.WithoutCells().Kept() {
		t.Errorf("one is %+v", p)
	}
}
