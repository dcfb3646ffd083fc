package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// Times of the driver.
const (
	// nudge is how long after an interrupt the shell is asked again to report that the cell is
	// over, and gets the signals again that may be lost.
	nudge = 50 * time.Millisecond
	// patience is how long a cell may continue after its interrupt, because of a trap or a program
	// that handles it, before it is ended by force.
	patience = 200 * time.Millisecond
	// dismissal is the time after which a shell that cannot leave its cell has to end. farewell is
	// how long it may take to write its state.
	dismissal = 600 * time.Millisecond
	farewell  = 2 * time.Second
	// hearing is how long a shell that has to end may run a command of Bash that does not notice it.
	hearing = 1400 * time.Millisecond
	// slowSave is how long writing the state may take to be done after every cell. A larger state
	// is written during at most a quarter of the time.
	slowSave = 300 * time.Millisecond
	// smallState is a size in bytes up to which a state is written after every cell: if that takes
	// long, only because the machine is busy.
	smallState = 256 << 10
	// keptStates is the number of the last states whose files are kept, for answers that read one.
	keptStates = 8
	// maxRepeats bounds how often the shell gets a request again that a signal has cut off.
	maxRepeats = 10
	// maxUnborn is how many shells may end with a state before they are up. The next one begins
	// without it, because it may be the reason.
	maxUnborn = 5
	// holdLimit is how long a cell waits for the shell to be ready for it.
	holdLimit = 10 * time.Second
	// savePause is the longest time without a saved state: the sandbox may have been frozen while
	// one was written.
	savePause = 10 * time.Second
	// A child that was started at most forked before an interrupt, or forkedLate after it, may have
	// missed it.
	forked     = 100 * time.Millisecond
	forkedLate = 30 * time.Millisecond
	// drainLimit bounds the wait for the streams, which keeps their order.
	drainLimit = 50 * time.Millisecond
)

// keptCells is the number of cells whose texts are kept for tracebacks.
const keptCells = 200

// driver is the kernel. Its own goroutine handles one event after another.
type driver struct {
	out    *frame.Writer
	fd     uintptr // the descriptor of out
	room   *room
	shell  *shell
	events chan []string
	queue  []kernel.Request
	cell   *cell
	count  int         // execution_count
	flags  string      // options of set that apply to the next cell: e, u, x
	after  chan func() // functions that timers run
	ready  bool
	// insisted is the fence that has to be reached before the next cell, because the shell may have
	// to handle signals that were for the last one. fenced is set while the shell is asked to
	// report the fences'th one. held is when the next cell began to wait.
	insisted, fences int
	fenced           bool
	heldSince        time.Time
	// running is the last child that a cell has left running; 0 means none.
	running int
	// requests receives the agent's requests in their order.
	requests <-chan kernel.Request
	// reseeds has the running reseeds: the file of each, and its request.
	reseeds map[string]reseed
	// keeps has the running requests to keep and restore variables, by their ids.
	keeps map[string]*keeping

	// The state on disk, at the end of the cell last. Its file is complete, whatever happens to the
	// shell: a shell that writes another state uses another file.
	saved   string // its file; "" means none
	savedAt uint32 // the cell after which it was saved
	saving  int    // the number of the state that the shell is writing; 0 means none
	// savingFence is the fence after which that state must be there.
	savingFence int
	unborn      int    // how many shells in a row have ended before they were up
	repeats     int    // how often in a row the shell was asked again for a state or to begin
	states      int    // the number of the last state that a shell was asked for
	swept       int    // states up to this number are removed
	again       bool   // it has to be written again
	last        uint32 // the last cell that ended
	stale       bool
	nextDue     time.Time
	waiting     []func()          // functions to run once it has been written
	first       map[string]bool   // the names that are not the user's; nil before the first state
	given       map[variable]bool // these names with their values
}

// cell is the running execution.
type cell struct {
	kernel.Request
	name       string        // name of its file
	sent       time.Duration // when it was sent to the shell, see uptime
	running    int           // the last child that earlier cells left running
	program    bool
	beside     string // a file of its text in the shell's folder
	restricts  bool   // it may restrict its shell, which then ends itself by SIGKILL
	interrupts int
	ended      bool   // ended by a repeated interrupt, whatever its status
	asking     string // id of the call that waits for input
	syntax     string
	leaving    bool // its shell runs the EXIT trap
	exit       *int // set if it left the shell
	failure    failure
}

// reseed is a request to reseed the shell, and the number of the state that follows.
type reseed struct {
	id    uint64
	state int
}

// failure is the data of the ERR trap.
type failure struct {
	status  int
	command string
	stack   []string
}

func newDriver(replies *os.File, requests <-chan kernel.Request,
) (*driver, error) {
	r, err := newRoom()
	if err != nil {
		return nil, err
	}
	d := &driver{
		out: frame.NewWriter(replies), fd: replies.Fd(), room: r, events: make(chan []string),
		requests: requests, after: make(chan func()),
		reseeds: map[string]reseed{}, keeps: map[string]*keeping{},
	}
	go r.listen(d.events)
	d.shell, err = r.start("")
	return d, err
}

// run serves until the requests end.
func (d *driver) run(ended <-chan error) error {
	for {
		select {
		case r := <-d.requests:
			d.request(r)
		case e := <-d.events:
			d.event(e)
		case f := <-d.after:
			f()
		case err := <-ended:
			return err
		}
	}
}

func (d *driver) close() {
	d.shell.close()
	_ = d.shell.cmd.Process.Kill()
	_ = os.RemoveAll(d.room.dir)
}

// later calls f after a time, in the driver's own goroutine.
func (d *driver) later(in time.Duration, f func()) {
	time.AfterFunc(in, func() { d.after <- f })
}

func (d *driver) write(f frame.Frame) {
	if err := d.out.Write(f); err != nil {
		os.Exit(1) // the agent has disconnected
	}
}

func (d *driver) reply(r message.Reply) {
	if r.Op == "" {
		r.Op = "reply"
	}
	if r.Status == "" {
		r.Status = "ok"
	}
	body, _ := json.Marshal(r) // strings and numbers
	if len(body) > frame.MaxBody {
		body, _ = json.Marshal(message.Reply{
			Op: r.Op, ID: r.ID, Status: "error", EName: "TooLarge",
			EValue: "the answer is over 8 MiB",
		})
	}
	d.write(frame.Frame{Type: frame.Control, Body: body})
}

// message sends a message of the cell. It is not clear: the content of the streams comes before it.
func (d *driver) message(cell uint32, kind string, content any) bool {
	raw, err := json.Marshal(content)
	if err != nil {
		return false
	}
	body, _ := json.Marshal(message.Message{Type: kind, Content: raw})
	if len(body) > frame.MaxBody {
		return false
	}
	d.write(frame.Frame{Type: frame.Message, Cell: cell, Body: body})
	return true
}

func (d *driver) request(r kernel.Request) {
	refuse := func(name, format string, args ...any) {
		d.reply(message.Reply{
			ID: r.ID, Status: "error", EName: name,
			EValue: fmt.Sprintf(format, args...),
		})
	}
	switch r.Op {
	case "execute":
		d.queue = append(d.queue, r)
		d.next()
	case "input":
		if c := d.cell; c != nil && c.asking != "" {
			answer := "line " + r.Value
			if r.EOF {
				answer = "end"
			}
			_ = d.room.answer(c.asking, answer)
			c.asking = ""
		}
	case "interrupt":
		d.interrupt(r.Cell)
	case "comm":
	case "complete", "inspect", "is_complete", "variables":
		d.withState(func() {
			state, first := d.saved, d.first
			go func() { d.reply(help(d.room, state, first, r)) }()
		})
	case "reseed":
		d.reseed(r)
	case "keep", "restore":
		beginKeeping(d, r)
	case "malformed":
		refuse("Malformed", "the request cannot be read: %s", r.Value)
	default:
		refuse("Unsupported", "there is no operation %q", r.Op)
	}
}

// withState calls f once the shell's state is on disk. While a cell runs it calls f at once, with
// the previous state.
func (d *driver) withState(f func()) {
	if d.cell != nil || !d.stale && d.saving == 0 {
		f()
		return
	}
	d.waiting = append(d.waiting, f)
	if d.saving == 0 {
		d.save()
	}
}

func (d *driver) reseed(r kernel.Request) {
	var b strings.Builder
	for k, v := range r.Env {
		fmt.Fprintf(&b, "export %s=%s\n", k, quote(v))
	}
	if seed, err := strconv.ParseUint(r.Seed[:min(8, len(r.Seed))], 16, 32); err == nil {
		fmt.Fprintf(&b, "RANDOM=%d\n", seed)
	}
	name := fmt.Sprintf("reseed-%d", r.ID)
	if err := os.WriteFile(d.room.path(name), []byte(b.String()), 0o600); err != nil {
		d.reply(message.Reply{ID: r.ID, Status: "error", EName: "OSError", EValue: err.Error()})
		return
	}
	d.states++
	d.reseeds[name] = reseed{r.ID, d.states}
	d.shell.send(fmt.Sprintf(". %s; __sg_save %s; __sg_tell reseeded %s", quote(d.room.path(name)),
		quote(d.room.state(d.states)), name))
}
