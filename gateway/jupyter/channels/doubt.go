package channels

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// A durable session whose node fails continues from a copy, with logs of another epoch. The copy may
// not know cells that were queued after it was made. Their clients would never get a reply, so
// the connection ends these cells itself:
//
//   - A connection hands the cells that have not ended to the next connection of its client.
//   - A cell that was sent when the log had another epoch is in doubt. The connection gets the
//     whole log of the copy. A cell that the copy knows ends there or runs.
//   - Once the kernel is idle and its log is read, the remaining cells in doubt are lost.

const (
	// maxLeft is the largest size of the cells that a client leaves, in bytes.
	maxLeft = 512 << 10
	// requestSize is the size of a request without its key and header, in bytes.
	requestSize = 128
	// askPause is the time before another question about the kernel's state, after one that failed.
	askPause = time.Second
)

// request is a request to execute a cell that was sent to the node.
type request struct {
	header json.RawMessage
	epoch  uint64 // the log's epoch at that time
	sent   time.Time
	early  bool // an earlier connection has sent it
}

// left are cells without a reply, by their keys, when a connection ended.
type left struct {
	cells map[string]request
	size  int
}

// leave returns the cells that the next connection gets, up to maxLeft bytes; nil for none.
func leave(asked map[string]request) *left {
	l := &left{cells: map[string]request{}}
	for key, r := range asked {
		if size := len(key) + len(r.header) + requestSize; l.size+size <= maxLeft {
			l.cells[key] = r
			l.size += size
		}
	}
	if len(l.cells) == 0 {
		return nil
	}
	return l
}

// Kept reports whether p has something for the next connection.
func (p Position) Kept() bool { return p.known() || p.left != nil }

// Size is about how much memory the cells of p take, in bytes.
func (p Position) Size() int {
	if p.left == nil {
		return 0
	}
	return p.left.size
}

// CellsOnly returns p without the position in the log.
func (p Position) CellsOnly() Position { return Position{left: p.left} }

// WithoutCells returns p without the cells that have not ended.
func (p Position) WithoutCells() Position {
	p.left = nil
	return p
}

// Join returns p with the cells of an earlier connection of the client too.
func (p Position) Join(earlier Position) Position {
	if earlier.left == nil || p.left == nil {
		p.left = cmp.Or(p.left, earlier.left)
		return p
	}
	all := maps.Clone(earlier.left.cells)
	maps.Copy(all, p.left.cells)
	p.left = leave(all)
	return p
}

// doubts are the methods of a connection about cells that its log may not have.
type doubts struct{ *Conn }

// doubt is the state of the cells in doubt. The goroutine that reads from the node uses it.
type doubt struct {
	open      bool // there may be cells in doubt
	takenOver bool // another node has taken the session over
	asking    bool // a question about the kernel's state is under way
	idle      bool // the kernel was idle when its log ended at end
	end       int64
}

// inherit takes the cells that an earlier connection has left. Preconditions: the connection is not
// served yet.
func (c doubts) inherit(l *left) {
	if l == nil {
		return
	}
	for key, r := range l.cells {
		r.early = true
		c.asked[key] = r
	}
}

// forgetEnded forgets the cells of earlier connections that have ended in this log before the part
// that is replayed, if the kernel was idle at the end of that part.
func (c doubts) forgetEnded() {
	if c.view.State == "busy" || c.view.Queued > 0 {
		return
	}
	c.requests.Lock()
	defer c.requests.Unlock()
	maps.DeleteFunc(c.asked, func(_ string, r request) bool {
		return r.early && r.epoch == c.written.Epoch
	})
}

// keys returns the keys of the cells that were sent to another log than this one, in the order
// in which they were sent.
func (c doubts) keys(epoch uint64) []string {
	c.requests.Lock()
	defer c.requests.Unlock()
	var keys []string
	for key, r := range c.asked {
		if r.epoch != epoch {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return c.asked[a].sent.Compare(c.asked[b].sent)
	})
	return keys
}

// check asks for the kernel's state if cells are in doubt. It does not wait.
func (c doubts) check() {
	d := &c.log.doubt
	if d.open && !d.idle && !d.asking && c.log.live {
		d.asking = true
		c.askState()
	}
}

func (c doubts) askState() {
	err := c.call(protocol.OpChannelList, protocol.SessionRef{Session: c.o.Session}, c.stateKnown)
	if fault.Is(err, fault.Exhausted) {
		time.AfterFunc(askPause, c.askState)
	}
}

// stateKnown handles the answer about the kernel's state. After the end of a running cell, the
// connection asks again.
func (c doubts) stateKnown(r protocol.Reply) {
	d := &c.log.doubt
	var all protocol.ChannelList
	if r.Error == nil {
		_ = json.Unmarshal(r.Result, &all) // the node writes it
	}
	for _, k := range all.Channels {
		if k.ID == c.o.Channel && k.Epoch == c.written.Epoch && k.State != "busy" && k.Queued == 0 {
			d.idle, d.end = true, k.End
		}
	}
	if !d.idle && (r.Error != nil || c.busy == nil) { // records or a state will follow
		time.AfterFunc(askPause, c.askState)
		return
	}
	d.asking = false
	_ = c.endLost() // the next write of the connection fails as well
}

// endLost ends the cells in doubt, once the kernel was idle and everything before that is written.
func (c doubts) endLost() error {
	d := &c.log.doubt
	if !d.open || !d.idle || c.written.Offset < d.end {
		return nil
	}
	d.open = false
	text := "the server of this session failed, and the session continues from an earlier copy"
	if d.takenOver {
		text = "the node of this session failed, and the session continues from an earlier copy " +
			"on another node"
	}
	text += "; the copy does not have this cell, and what it did is lost: run it again"
	for _, key := range c.keys(c.written.Epoch) {
		if err := c.endCell(key, lostName, text); err != nil {
			return err
		}
	}
	return nil
}

// lostName is the name of the error of a cell that is lost.
const lostName = "SandboxLost"

// endCell ends a cell that has no records in the log with an error.
func (c doubts) endCell(key, name, text string) error {
	parent, _ := c.parentOf(key)
	c.requests.Lock()
	delete(c.asked, key)
	c.requests.Unlock()
	traceback := []string{name + ": " + text}
	c.out.Lock()
	defer c.out.Unlock()
	all := []*wire.Message{
		c.statusOf("busy", parent),
		c.compose(wire.IOPub, message.ErrorType, parent, message.Error{
			EName: name, EValue: text, Traceback: traceback,
		}),
		c.compose(wire.Shell, message.ExecuteReplyType, parent, replyContent(message.ExecuteReply{
			Status: "error", EName: name, EValue: text,
		}, traceback)),
		c.statusOf("idle", parent),
	}
	if c.busy != nil { // a new cell runs
		all = append(all, c.statusOf("busy", c.busy.parent))
	}
	return c.sendLocked(all...)
}

// endComms answers the messages for comms that get no reply because the link to the node has ended.
// A widget sends nothing more until its last message is answered. Clients ask other questions
// again, and a cell gets its reply over the next connection.
func (c doubts) endComms() {
	c.requests.Lock()
	var all []pending
	for id, p := range c.pending {
		if p.op == protocol.OpComm {
			all = append(all, p)
			delete(c.pending, id)
		}
	}
	c.requests.Unlock()
	for _, p := range all {
		p.done(protocol.Reply{Error: &fault.Public{
			Kind:    fault.Unavailable,
			Message: "the connection to the kernel ended before it had answered this message",
		}})
	}
}
