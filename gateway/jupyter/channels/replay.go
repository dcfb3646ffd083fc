package channels

import (
	"encoding/json"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/protocol"
)

// replaySize is how much of the log a client gets whose position is not known, in bytes.
const replaySize = 1 << 20

// A client that connects gets the log from its known position. If none is known, for example after
// a reload of the page or the end of a gateway, it gets the last part of the log:
//
//   - output of every cell, as it was sent then;
//   - also the reply and the states of a cell that a client with this session id has asked for.
//     The client may have received a part of the output, so a clear_output comes first;
//   - at the end the present state, and an input_request that waits for an answer.
//
// The messages of cells that have ended match no request that waits for them, and clients ignore
// them.

// log is the state of a connection between the records of the log.
type log struct {
	exact bool  // the client continues at the position where it stopped
	end   int64 // the end of the replayed part
	live  bool  // the replayed part has ended
	state string

	cells map[uint32]*cell
	order []uint32 // the cells in the order of their first record
	death string   // the reason of the kernel's end

	text  collected
	doubt doubt
}

// collected is text of one stream of a cell that is not sent yet. It is empty without a cell.
type collected struct {
	cell   *cell
	stream int
	buffer *buffer
}

func (l *log) prepare(exact bool, a protocol.Attached) {
	l.exact, l.end, l.state = exact, a.Channel.End, a.Channel.State
	l.cells = map[uint32]*cell{}
}

// add remembers a cell, and forgets the oldest one beyond maxCells.
func (l *log) add(x *cell) {
	l.cells[x.number] = x
	l.order = append(l.order, x.number)
	if len(l.order) > maxCells {
		delete(l.cells, l.order[0])
		l.order = l.order[1:]
	}
}

// replayed ends the replayed part of the log, if all of it is written: it sends the present state.
func (c *Conn) replayed() error {
	l := &c.log
	if l.live || c.written.Offset < l.end {
		return nil
	}
	l.live = true
	doubts{c}.forgetEnded()
	doubts{c}.check()
	c.out.Lock()
	defer c.out.Unlock()
	if x := c.busy; x != nil {
		all := []*wire.Message{c.statusOf("busy", x.parent)}
		if x.input != nil {
			all = append(all, x.input)
			x.input = nil
		}
		return c.sendLocked(all...)
	}
	state := "idle"
	if l.state == "starting" {
		state = l.state
	}
	return c.sendLocked(c.statusOf(state, nil))
}

// shown reports whether a message about a cell's state is sent now. In the replayed part of the log
// it is sent for own cells only.
func (l *log) shown(x *cell) bool { return l.live || l.exact || x.own }

// encode returns the JSON of a value that has one.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}
