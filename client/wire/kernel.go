package wire

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/client/internal/doubt"
	"github.com/sandgate/sandgate/client/internal/records"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// MaxCellQueue is the largest amount of a cell's output, in bytes, that waits for Cell.Next. Above
// it the kernel's viewer stops reading, for all of its cells, until the output is read or the cell
// is closed.
const MaxCellQueue = records.Max

// Kernel executes code in one kernel channel and sorts its output by cell.
type Kernel struct {
	conn   *Conn
	viewer *Viewer
	cancel context.CancelFunc
	done   chan struct{}
	// unsure are the cells whose end may never arrive.
	unsure *doubt.Set[*Cell]

	mu    sync.Mutex // guards all fields below
	cells map[uint32]*Cell
	keys  map[string]*Cell
	other func(frame.Record)
	err   error
}

// Kernel attaches to a kernel channel at the end of its log: earlier output is not read.
func (c *Conn) Kernel(ctx context.Context, session, channel string) (*Kernel, error) {
	v, err := c.Attach(ctx, session, channel, AttachOptions{Offset: -1})
	if err != nil {
		return nil, err
	}
	pump, cancel := context.WithCancel(c.ctx)
	k := &Kernel{
		conn: c, viewer: v, cancel: cancel, done: make(chan struct{}),
		cells: make(map[uint32]*Cell), keys: make(map[string]*Cell),
	}
	k.unsure = doubt.New(k.recount)
	go k.pump(pump)
	return k, nil
}

// Other sets the function that gets every record that belongs to none of this Kernel's open cells:
// output of other clients' cells and of threads that still print, states and events. It must not
// block. nil, the default, drops these records.
func (k *Kernel) Other(f func(frame.Record)) {
	k.mu.Lock()
	k.other = f
	k.mu.Unlock()
}

// Channel returns the channel as it was at the last attach.
func (k *Kernel) Channel() protocol.Channel { return k.viewer.Channel() }

// ExecuteOptions are an execution's settings.
type ExecuteOptions struct {
	// Key is the idempotency key; empty means a new one. A repeated Execute with the same key runs
	// nothing.
	Key string
	// Silent, KeepGoing, NoInput and Program are as in protocol.Execute.
	Silent    bool
	KeepGoing bool
	NoInput   bool
	Program   bool
	// Timeout is the time after which the cell is interrupted; 0 means never.
	Timeout time.Duration
}

// Cell is one execution and its output. Only one goroutine may call Next.
type Cell struct {
	kernel *Kernel
	key    string
	output *records.Queue
	// repeated is true if the server knew the key already. Execute sets it.
	repeated bool

	mu     sync.Mutex // guards all fields below
	number uint32
	reply  *message.ExecuteReply
}

// Execute queues code and returns once the server has accepted it. After a reconnection the client
// sends it again under its key, and it runs only once.
func (k *Kernel) Execute(ctx context.Context, code string, o ExecuteOptions) (*Cell, error) {
	if o.Key == "" {
		o.Key = NewKey()
	}
	cell := &Cell{kernel: k, key: o.Key, output: records.New()}
	k.mu.Lock()
	if k.err != nil {
		k.mu.Unlock()
		return nil, k.err
	}
	k.keys[o.Key] = cell
	k.mu.Unlock()
	var q protocol.Queued
	err := k.viewer.call(ctx, protocol.OpExecute, protocol.Execute{
		Key: o.Key, Code: code, Silent: o.Silent, KeepGoing: o.KeepGoing, NoInput: o.NoInput,
		Program: o.Program, TimeoutMS: o.Timeout.Milliseconds(),
	}, &q, true)
	if err != nil {
		_ = cell.Close()
		return nil, err
	}
	cell.repeated = q.Repeated
	k.bind(cell, q.Cell)
	return cell, nil
}

// bind sets the number of a cell. The output may have set it before the reply.
func (k *Kernel) bind(cell *Cell, number uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[cell.key] != cell || number == 0 {
		return
	}
	cell.mu.Lock()
	cell.number = number
	cell.mu.Unlock()
	k.cells[number] = cell
}

// pump reads the channel's records and passes them to their cells.
func (k *Kernel) pump(ctx context.Context) {
	defer close(k.done)
	for {
		r, err := k.viewer.Next(ctx)
		if err != nil {
			if err == io.EOF {
				err = fault.New(fault.KernelDied, "client.kernel", "the kernel's channel has ended")
			}
			k.failAll(err)
			return
		}
		if r.Kind == frame.KindExit {
			var e protocol.Exit
			if json.Unmarshal(r.Payload, &e) == nil && ExitError(e) != nil {
				k.failAll(ExitError(e))
				return
			}
		}
		k.deliver(ctx, r)
	}
}

// failAll ends every open cell with the error.
func (k *Kernel) failAll(err error) {
	k.mu.Lock()
	k.err = err
	cells := make([]*Cell, 0, len(k.keys))
	for _, c := range k.keys {
		cells = append(cells, c)
	}
	clear(k.keys)
	clear(k.cells)
	k.mu.Unlock()
	for _, c := range cells {
		c.output.Fail(err)
	}
}

func (k *Kernel) deliver(ctx context.Context, r frame.Record) {
	if r.Kind == frame.KindGap || r.Kind == frame.KindEvent {
		k.broadcast(ctx, r)
		return
	}
	var reply *message.ExecuteReply
	key := ""
	if r.Kind == frame.KindMessage && r.Cell != 0 {
		var m message.Message
		if json.Unmarshal(r.Payload, &m) == nil {
			switch m.Type {
			case message.ExecuteInputType:
				var in message.ExecuteInput
				if json.Unmarshal(m.Content, &in) == nil {
					key = in.Key
				}
			case message.ExecuteReplyType:
				reply = new(message.ExecuteReply)
				if json.Unmarshal(m.Content, reply) == nil {
					key = reply.Key
				}
			}
		}
	}
	k.mu.Lock()
	cell := k.cells[r.Cell]
	if key != "" {
		// After a take-over a number can be given again: the key decides.
		if cell != nil && cell.key != key {
			delete(k.cells, r.Cell)
		}
		cell = k.keys[key]
	}
	other := k.other
	k.mu.Unlock()
	if cell == nil {
		if other != nil {
			other(r)
		}
		return
	}
	k.bind(cell, r.Cell)
	cell.put(ctx, r, reply)
	if reply != nil {
		k.forget(cell)
		k.unsure.Check(ctx)
	}
}

// broadcast passes a record that concerns the whole channel to all open cells. A gap may have
// contained the end of some of them; then the client asks the server.
func (k *Kernel) broadcast(ctx context.Context, r frame.Record) {
	k.mu.Lock()
	cells := make([]*Cell, 0, len(k.keys))
	for _, c := range k.keys {
		cells = append(cells, c)
	}
	other := k.other
	k.mu.Unlock()
	if other != nil {
		other(r)
	}
	for _, c := range cells {
		c.put(ctx, r, nil)
	}
	switch {
	case r.Kind == frame.KindGap:
		k.doubt(ctx, fault.New(fault.Slow, "client.cell",
			"the end of the cell's output is no longer there"))
	case takenOver(r):
		k.doubt(ctx, fault.New(fault.SandboxLost, "client.cell",
			"the session's node has failed, and the copy that continues does not have this cell"))
	}
}

// takenOver reports whether a record says that another node continues the session from a copy. The
// copy may lack cells that were acknowledged after it was made.
func takenOver(r frame.Record) bool {
	var e struct{ Event string }
	return r.Kind == frame.KindEvent && json.Unmarshal(r.Payload, &e) == nil &&
		e.Event == "taken_over"
}

// doubt marks all cells that the server has accepted: their ends may never arrive. They get the
// error if the kernel is idle.
func (k *Kernel) doubt(ctx context.Context, err error) {
	k.mu.Lock()
	cells := slices.Collect(maps.Values(k.cells))
	k.mu.Unlock()
	k.unsure.Mark(cells, err)
	k.unsure.Check(ctx)
}

// recount ends marked cells if the kernel is idle. If it is not, the next reply causes another
// call.
func (k *Kernel) recount(ctx context.Context, marked map[*Cell]error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	channels, err := k.conn.Channels(ctx, k.viewer.session)
	if err != nil {
		return err
	}
	for _, ch := range channels {
		if ch.ID != k.viewer.channel || ch.State == "busy" || ch.Queued > 0 {
			continue
		}
		// The log ends at ch.End. Once the viewer has reached that offset, no more output of these
		// cells can follow.
		for {
			_, at := k.viewer.Offset()
			if at >= ch.End {
				break
			}
			timer := time.NewTimer(50 * time.Millisecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
		}
		for c, why := range marked {
			c.output.Fail(why)
			k.forget(c)
		}
	}
	return nil
}

func (k *Kernel) forget(cell *Cell) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[cell.key] == cell {
		delete(k.keys, cell.key)
	}
	cell.mu.Lock()
	number := cell.number
	cell.mu.Unlock()
	if k.cells[number] == cell {
		delete(k.cells, number)
	}
	k.unsure.Remove(cell)
}

// put queues a record for Next and waits while the queue is full.
func (c *Cell) put(ctx context.Context, r frame.Record, reply *message.ExecuteReply) {
	if reply != nil {
		c.mu.Lock()
		c.reply = reply
		c.mu.Unlock()
	}
	c.output.Push(ctx, r, reply != nil)
}

// Repeated reports whether the server knew the key of the execution: from an earlier Execute, or
// because the request was sent again. Next then misses the output before this Execute.
func (c *Cell) Repeated() bool { return c.repeated }

// Number returns the cell's number in its channel, which its records carry.
func (c *Cell) Number() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number
}

// Next returns the cell's next record. The last one is the execute_reply; after it Next returns
// io.EOF. Gap and event records of the channel are included.
func (c *Cell) Next(ctx context.Context) (frame.Record, error) { return c.output.Next(ctx) }

// Wait skips the remaining output and returns how the cell ended.
func (c *Cell) Wait(ctx context.Context) (message.ExecuteReply, error) {
	for {
		_, err := c.Next(ctx)
		if err == io.EOF {
			c.mu.Lock()
			defer c.mu.Unlock()
			return *c.reply, nil
		}
		if err != nil {
			return message.ExecuteReply{}, err
		}
	}
}

// Reply returns how the cell ended; nil before its execute_reply has arrived.
func (c *Cell) Reply() *message.ExecuteReply {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reply
}

// Close discards the rest of the cell's output. The cell continues to run.
func (c *Cell) Close() error {
	c.output.Close()
	c.kernel.forget(c)
	return nil
}

// Interrupt stops the running cell and aborts the queued ones. A kernel that has not stopped after
// grace is killed and restarted, which loses its variables; 0 means never.
func (k *Kernel) Interrupt(ctx context.Context, grace time.Duration) error {
	return k.viewer.call(ctx, protocol.OpInterrupt,
		protocol.Interrupt{GraceMS: grace.Milliseconds()}, nil, false)
}

// Interrupt stops this cell and no other: it is aborted if it waits. A cell that has not stopped
// after grace causes the kernel to be killed; 0 means never.
func (c *Cell) Interrupt(ctx context.Context, grace time.Duration) error {
	return c.kernel.viewer.call(ctx, protocol.OpInterrupt,
		protocol.Interrupt{GraceMS: grace.Milliseconds(), Cell: c.Number()}, nil, false)
}

// Restart restarts the kernel and returns once it is ready. Its variables are lost.
func (k *Kernel) Restart(ctx context.Context) error {
	return k.viewer.call(ctx, protocol.OpRestart, nil, nil, false)
}

// Complete returns completions at the cursor, a position in code points.
func (k *Kernel) Complete(ctx context.Context, code string, cursor int) (message.Reply, error) {
	return k.ask(ctx, protocol.OpComplete, protocol.Complete{Code: code, Cursor: cursor})
}

// Inspect returns documentation for the name at the cursor, or for the subject of p.
func (k *Kernel) Inspect(ctx context.Context, p protocol.Complete) (message.Reply, error) {
	return k.ask(ctx, protocol.OpInspect, p)
}

// IsComplete reports whether the code is complete.
func (k *Kernel) IsComplete(ctx context.Context, code string) (message.Reply, error) {
	return k.ask(ctx, protocol.OpIsComplete, protocol.Complete{Code: code})
}

// Variables lists the user's variables, at most kernel.MaxVariables. In a language with one thread
// it waits while a cell runs.
func (k *Kernel) Variables(ctx context.Context) ([]message.Variable, error) {
	var r message.Reply
	err := k.viewer.call(ctx, protocol.OpVariables, nil, &r, true)
	if err == nil && r.Status == "error" {
		err = fault.New(fault.Unsupported, "client.variables", "the kernel answered: %s", r.EValue)
	}
	return r.Variables, err
}

// History returns the code that the kernel's channel has run, oldest first.
func (k *Kernel) History(ctx context.Context) ([]protocol.HistoryEntry, error) {
	var h protocol.History
	err := k.viewer.call(ctx, protocol.OpHistory, nil, &h, true)
	return h.Entries, err
}

func (k *Kernel) ask(ctx context.Context, op string, p protocol.Complete) (message.Reply, error) {
	var r message.Reply
	err := k.viewer.call(ctx, op, p, &r, true)
	return r, err
}

// Input answers an input_request. An answer that names the request is sent again after a lost
// connection. Errors: Conflict if the request has another answer, or is not open.
func (k *Kernel) Input(ctx context.Context, p protocol.InputReply) error {
	return k.viewer.call(ctx, protocol.OpInput, p, nil, p.Request != 0)
}

// Close detaches from the kernel, which continues.
func (k *Kernel) Close() error {
	err := k.viewer.Close()
	k.cancel()
	<-k.done
	return err
}

// Err returns why the kernel's channel or its viewer has ended; nil until then.
func (k *Kernel) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}
