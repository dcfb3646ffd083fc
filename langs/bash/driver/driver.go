package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/stream"
)

// Times of the driver.
const (
	// nudge is how long after an interrupt the shell is reminded to say that
	// the cell is over: the signal may have cut that off.
	nudge = 50 * time.Millisecond
	// stubborn is how long a cell may go on after its second interrupt before
	// its processes, and after that again its shell, are killed.
	stubborn = 150 * time.Millisecond
	// slowSave is how long writing the state may take to be done after every
	// cell. A larger state is written a quarter of the time at most.
	slowSave = 300 * time.Millisecond
	// savePause is the longest time without a state: the sandbox may have been
	// frozen while one was written.
	savePause = 10 * time.Second
	// youth is how long after it was sent a cell may not have begun. It is
	// interrupted once more if it does not end.
	youth = 20 * time.Millisecond
	// earlyLimit is how long an execute that lay unread at its interrupt may
	// take to be read.
	earlyLimit = 50 * time.Millisecond
	// signalLimit is how much later a SIGINT may come to the driver than to
	// what it runs.
	signalLimit = 20 * time.Millisecond
	// drainLimit bounds how long the streams are waited for, to keep order.
	drainLimit = 5 * time.Millisecond
)

// keptCells is how many cells' texts are kept for tracebacks.
const keptCells = 200

// driver is the kernel. Its own goroutine handles one thing after another.
type driver struct {
	out    *stream.Writer
	fd     uintptr // of out
	room   *room
	shell  *shell
	events chan []string
	queue  []kernel.Request
	cell   *cell
	count  int         // execution_count
	flags  string      // of set, that hold for the next cell: e, u, x
	after  chan func() // what timers want done
	ready  bool
	// interrupts brings SIGINT, which comes to the shell as well.
	interrupts <-chan os.Signal
	// arrived counts the requests that have been read, taken those at work.
	arrived *atomic.Int64
	taken   int64
	// early is until when an execute that comes is one that has been
	// interrupted already.
	early time.Time
	// reseeds are under way: the file of each, and its request.
	reseeds map[string]uint64

	// The state on disk, as of the end of the cell last.
	saved   string // its file; "" for none
	savedAt uint32 // the cell it is of
	saving  time.Time
	again   bool   // it has to be written once more
	last    uint32 // the last cell that ended
	stale   bool
	nextDue time.Time
	waiting []func()        // to be done once it has been written
	first   map[string]bool // the names that are not the user's; nil before the first state
}

// cell is the execution at work.
type cell struct {
	kernel.Request
	name       string // its file's
	sent       time.Time
	program    bool
	interrupts int
	asking     string // the call that waits for input
	syntax     string
	exit       *int // it left the shell
	failure    failure
}

// failure is what the ERR trap has seen.
type failure struct {
	status  int
	command string
	stack   []string
}

func newDriver(replies *os.File, interrupts <-chan os.Signal, arrived *atomic.Int64) (*driver, error) {
	r, err := newRoom()
	if err != nil {
		return nil, err
	}
	d := &driver{
		out: stream.NewWriter(replies), fd: replies.Fd(), room: r, events: make(chan []string), interrupts: interrupts, arrived: arrived, after: make(chan func()),
		reseeds: map[string]uint64{},
	}
	go r.listen(d.events)
	d.shell, err = r.start("")
	return d, err
}

// run serves until the requests end.
func (d *driver) run(requests <-chan kernel.Request, ended <-chan error) error {
	for {
		select {
		case r := <-requests:
			d.taken++
			d.request(r)
		case e := <-d.events:
			d.event(e)
		case <-d.interrupts:
			d.interrupt()
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

// later does something in a while, in the driver's own goroutine.
func (d *driver) later(in time.Duration, f func()) {
	time.AfterFunc(in, func() { d.after <- f })
}

func (d *driver) write(f stream.Frame) {
	if err := d.out.Write(f); err != nil {
		os.Exit(1) // the agent is gone
	}
}

func (d *driver) reply(r kernel.Reply) {
	if r.Op == "" {
		r.Op = "reply"
	}
	if r.Status == "" {
		r.Status = "ok"
	}
	body, _ := json.Marshal(r) // strings and numbers
	if len(body) > stream.MaxBody {
		body, _ = json.Marshal(kernel.Reply{Op: r.Op, ID: r.ID, Status: "error", EName: "TooLarge", EValue: "the answer is over 8 MiB"})
	}
	d.write(stream.Frame{Type: stream.Control, Body: body})
}

// message sends a message of the cell's. It is not clear: what the streams
// hold goes before it.
func (d *driver) message(cell uint32, kind string, content any) bool {
	raw, err := json.Marshal(content)
	if err != nil {
		return false
	}
	body, _ := json.Marshal(kernel.Message{Type: kind, Content: raw})
	if len(body) > stream.MaxBody {
		return false
	}
	d.write(stream.Frame{Type: stream.Message, Cell: cell, Body: body})
	return true
}

func (d *driver) request(r kernel.Request) {
	refuse := func(name, format string, args ...any) {
		d.reply(kernel.Reply{ID: r.ID, Status: "error", EName: name, EValue: fmt.Sprintf(format, args...)})
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
		d.interrupt()
	case "comm":
	case "complete", "inspect", "is_complete", "variables":
		d.withState(func() {
			state, first := d.saved, d.first
			go func() { d.reply(help(d.room, state, first, r)) }()
		})
	case "reseed":
		d.reseed(r)
	case "malformed":
		refuse("Malformed", "the request cannot be read: %s", r.Value)
	default:
		refuse("Unsupported", "there is no operation %q", r.Op)
	}
}

// withState does f once the state is on disk as the shell has it: at once
// while a cell runs, with the state before it.
func (d *driver) withState(f func()) {
	if d.cell != nil || !d.stale && d.saving.IsZero() {
		f()
		return
	}
	d.waiting = append(d.waiting, f)
	if d.saving.IsZero() {
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
		d.reply(kernel.Reply{ID: r.ID, Status: "error", EName: "OSError", EValue: err.Error()})
		return
	}
	d.reseeds[name] = r.ID
	if !d.saving.IsZero() {
		d.saving = time.Now() // a snapshot may lie in between
	}
	d.shell.send(fmt.Sprintf(". %s; __sg_save %s; __sg_tell reseeded %s", quote(d.room.path(name)), quote(d.room.path("state-reseed")), name))
}

// ordersStreams finds cells that write to standard error themselves.
var ordersStreams = regexp.MustCompile(`>\s*&\s*2|/dev/stderr`)

// next starts the next execution, if none runs.
func (d *driver) next() {
	if d.cell != nil || len(d.queue) == 0 || !d.ready {
		return
	}
	r := d.queue[0]
	d.queue = d.queue[1:]
	c := &cell{Request: r, name: fmt.Sprintf("cell-%d", r.Cell)}
	d.cell = c
	if !r.Silent {
		d.count++
	}
	if time.Now().Before(d.early) {
		d.early = time.Time{}
		c.interrupts++
		d.fail("Interrupted", "the cell was interrupted before it began", nil)
		return
	}
	code := strings.ReplaceAll(r.Code, "\r\n", "\n")
	if strings.ContainsRune(code, 0) {
		d.fail("SyntaxError", "the code holds a zero byte", nil)
		return
	}
	if strings.HasPrefix(code, "#!") {
		c.program = true
		file := d.room.path(fmt.Sprintf("program-%d", r.Cell))
		if err := os.WriteFile(file, []byte(code), 0o700); err != nil {
			d.fail("OSError", err.Error(), nil)
			return
		}
		code = quote(file) + "\n"
	}
	before := ""
	if ordersStreams.MatchString(code) && !c.program && !strings.Contains(d.flags, "x") && !strings.Contains(code, "set -x") {
		before = `set -T; __sg_mixed=yes; trap '__sg_debug "$BASH_COMMAND"' DEBUG; `
	}
	if d.flags != "" && !c.program {
		before += "set -" + d.flags + ";"
	}
	if err := os.WriteFile(d.room.path(c.name), []byte(before+code), 0o600); err != nil {
		d.fail("OSError", err.Error(), nil)
		return
	}
	if r.Cell > keptCells {
		for _, kind := range []string{"cell", "program"} {
			_ = os.Remove(d.room.path(fmt.Sprintf("%s-%d", kind, r.Cell-keptCells)))
		}
	}
	c.sent = time.Now()
	d.shell.send(fmt.Sprintf("__sg_probe %d && . %s <%s; { __sg_off; } 2>/dev/null", r.Cell, quote(d.room.path(c.name)), quote(d.room.path("stdin"))))
}

// event takes what the shell tells.
func (d *driver) event(e []string) {
	arg := func(i int) string {
		if i < len(e) {
			return e[i]
		}
		return ""
	}
	number := func(i int) int { n, _ := strconv.Atoi(arg(i)); return n }
	switch e[0] {
	case "up":
		d.shell.up = true
		d.saved = d.room.path("state-up")
		if !d.ready {
			d.ready = true
			d.noteFirst()
			d.reply(kernel.Reply{Op: "ready", Info: info()})
		}
		d.next()
	case "sync":
		d.drained(1, 2)
		_ = d.room.answer(arg(1), "ok")
	case "ask":
		d.ask(arg(1), arg(2) != "", arg(3))
	case "display":
		_ = d.room.answer(arg(1), d.display(arg(2), arg(3)))
	case "syntax":
		if d.cell != nil && number(1) == int(d.cell.Cell) {
			d.cell.syntax = syntaxError(d.cell.Code)
		}
	case "done":
		if d.cell != nil && number(1) == int(d.cell.Cell) {
			d.cell.failure = failure{number(4), arg(5), strings.Fields(arg(6))}
			d.done(number(2), arg(3))
		}
	case "exit":
		if d.cell != nil {
			status := number(1)
			d.cell.exit = &status
			d.cell.failure = failure{number(2), arg(3), strings.Fields(arg(4))}
		}
	case "saved":
		if took := time.Duration(number(2)) * time.Microsecond; took > slowSave {
			d.nextDue = time.Now().Add(min(3*took, savePause))
		}
		d.saving, d.stale = time.Time{}, false
		d.saved, d.savedAt = d.room.path("state-"+filepath.Base(arg(1))), d.last
		if d.again {
			d.again = false
			d.save()
			return
		}
		d.flushWaiting()
	case "reseeded":
		if id, ok := d.reseeds[arg(1)]; ok {
			delete(d.reseeds, arg(1))
			_ = os.Remove(d.room.path(filepath.Base(arg(1))))
			d.saved, d.savedAt, d.nextDue = d.room.path("state-reseed"), d.last, time.Time{}
			d.noteFirst() // what the session brings is not the user's either
			d.reply(kernel.Reply{ID: id})
		}
	case "gone":
		if arg(1) == fmt.Sprint(d.shell.cmd.Process.Pid) {
			d.gone()
		}
	}
}

func (d *driver) flushWaiting() {
	waiting := d.waiting
	d.waiting = nil
	for _, f := range waiting {
		f()
	}
}

// save has the shell write its state, in turn into one of two files.
func (d *driver) save() {
	if !d.saving.IsZero() {
		d.again = true
		return
	}
	d.saving = time.Now()
	name := "a"
	if strings.HasSuffix(d.saved, "-a") {
		name = "b"
	}
	d.shell.send("{ __sg_keep " + name + "; } 2>/dev/null")
}

// noteFirst remembers the names in the state, which are none of the user's.
func (d *driver) noteFirst() {
	first := map[string]bool{} // helpers may be reading the old one
	for _, v := range readState(d.saved) {
		first[v.name] = true
	}
	d.first = first
}

// ask passes a request for input on.
func (d *driver) ask(id string, silent bool, prompt string) {
	c := d.cell
	if c == nil || c.NoInput {
		_ = d.room.answer(id, "refused")
		return
	}
	c.asking = id
	d.message(c.Cell, kernel.InputRequestType, kernel.InputRequest{Prompt: prompt, Password: silent})
}

// drained waits until the agent has read the descriptors, for a moment.
func (d *driver) drained(fds ...int) {
	for end := time.Now().Add(drainLimit); ; time.Sleep(50 * time.Microsecond) {
		full := slices.ContainsFunc(fds, func(fd int) bool {
			n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
			return err == nil && n > 0
		})
		if !full || time.Now().After(end) {
			return
		}
	}
}

// interrupt notes a SIGINT, which the shell has had too, and sees to it that
// the cell ends: a second one ends what ignores the first.
func (d *driver) interrupt() {
	c := d.cell
	if c == nil {
		// The cell that is meant may lie unread.
		if n, err := unix.IoctlGetInt(requestsFD, unix.TIOCINQ); err == nil && n > 0 || d.arrived.Load() > d.taken {
			d.early = time.Now().Add(earlyLimit)
		}
		// Or it came late, and may have cut off the writing of the state.
		if began := d.saving; !began.IsZero() {
			d.later(nudge, func() {
				if d.saving.Equal(began) && d.cell == nil {
					d.saving = time.Time{}
					d.save()
				}
			})
		}
		return
	}
	c.interrupts++
	c.asking = ""
	still := func() bool { return d.cell == c }
	// The shell may have had the signal before it had the cell.
	young := c.interrupts == 1 && time.Since(c.sent) < youth
	d.later(nudge, func() {
		if still() {
			if young {
				_ = syscall.Kill(d.shell.cmd.Process.Pid, syscall.SIGINT)
				signalChildren(d.shell.cmd.Process.Pid, syscall.SIGINT)
			}
			d.shell.send(fmt.Sprintf("{ __sg_over %d; } 2>/dev/null", c.Cell))
		}
	})
	if c.interrupts != 2 {
		return
	}
	d.later(stubborn, func() {
		if !still() {
			return
		}
		signalChildren(d.shell.cmd.Process.Pid, syscall.SIGKILL)
		d.later(stubborn, func() {
			if still() {
				_ = d.shell.cmd.Process.Kill()
			}
		})
	})
}

// done ends the cell by its status.
func (d *driver) done(status int, options string) {
	c := d.cell
	// A state that was asked for before the cell and has not been told of
	// never will be.
	d.saving, d.again = time.Time{}, false
	d.flags = ""
	for _, f := range "eux" {
		if strings.ContainsRune(options, f) && !c.program {
			d.flags += string(f)
		}
	}
	if status == 128+int(unix.SIGINT) && c.interrupts == 0 {
		// The shell may have been quicker to tell of the signal.
		select {
		case <-d.interrupts:
			c.interrupts++
		case <-time.After(signalLimit):
		}
	}
	switch {
	case c.syntax != "":
		d.fail("SyntaxError", c.syntax, d.place(c.syntax))
	case status == 0 && !c.program:
		d.finish(kernel.Reply{})
	case status == 0:
		d.finish(kernel.Reply{ExitCode: &status})
	case status >= 128 && c.interrupts > 0:
		d.fail("Interrupted", "the cell was interrupted", d.traceback())
	case !c.program && c.condition(status):
		d.finish(kernel.Reply{ExitCode: &status}) // a condition was false
	default:
		d.failStatus(status)
	}
}

// condition reports whether the status only says that something was not so:
// that of a test, or of a list with && or || or !, for which Bash runs no ERR
// trap either.
func (c *cell) condition(status int) bool {
	if c.failure.status == status {
		word, _, _ := strings.Cut(c.failure.command, " ")
		return slices.Contains([]string{"[", "[[", "test", "let"}, word) || strings.HasPrefix(c.failure.command, "((")
	}
	lines := strings.Split(strings.TrimSpace(c.Code), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return strings.Contains(last, "&&") || strings.Contains(last, "||") || strings.HasPrefix(last, "!")
}

// failStatus ends the cell with an exit status that is no success.
func (d *driver) failStatus(status int) {
	name, value := "ExitStatus", fmt.Sprint(status)
	command := d.cell.failure.command
	switch {
	case status == 126:
		name = "NotExecutable"
	case status == 127:
		name = "CommandNotFound"
	case status > 128 && status < 128+65:
		name, value = "Signal", signalName(unix.Signal(status-128))
	}
	if command != "" && d.cell.failure.status == status {
		value += ": " + firstLine(command)
	}
	d.failWith(name, value, d.traceback(), &status)
}

func firstLine(s string) string {
	line, rest, _ := strings.Cut(s, "\n")
	if rest != "" {
		line += " …"
	}
	return line
}

func (d *driver) fail(name, value string, traceback []string) {
	d.failWith(name, value, traceback, nil)
}

func (d *driver) failWith(name, value string, traceback []string, status *int) {
	lines := append([]string{name + ": " + value}, traceback...)
	d.message(d.cell.Cell, kernel.ErrorType, kernel.Error{EName: name, EValue: value, Traceback: lines})
	d.finish(kernel.Reply{Status: "error", EName: name, EValue: value, ExitCode: status})
}

// finish answers the cell's request and writes the state while there is time.
func (d *driver) finish(r kernel.Reply) {
	c := d.cell
	d.cell = nil
	d.last = c.Cell
	r.ID = c.ID
	if !c.Silent {
		r.Count = d.count
	}
	d.reply(r)
	d.stale = true
	if time.Now().After(d.nextDue) {
		d.save()
	}
	d.next()
}

// gone starts a new shell in the place of one that has ended.
func (d *driver) gone() {
	status, how := d.shell.status()
	d.shell.close()
	state, whole := d.saved, false
	c := d.cell
	if c != nil && c.exit != nil {
		state, whole = d.room.path("state-exit"), true
		status = *c.exit
	}
	d.saving, d.again = time.Time{}, false
	if !d.shell.up {
		state = "" // it may be what ends the shells
	}
	var next *shell
	err := fmt.Errorf("it %s at once", how)
	if d.shell.up || d.saved != "" {
		next, err = d.room.start(state)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bash driver: there is no new shell:", err)
		d.close()
		os.Exit(1)
	}
	lived := d.shell.up
	d.shell = next
	if state == "" {
		d.saved = ""
	}
	number := uint32(0)
	if c != nil {
		number = c.Cell
	}
	switch {
	case whole && lived:
	case state == "":
		d.message(number, kernel.KernelEventType, kernel.KernelEvent{Event: "state_lost", Message: how + "; a new one has been started"})
	default:
		d.message(number, kernel.KernelEventType, kernel.KernelEvent{
			Event:   "restored",
			Message: fmt.Sprintf("%s; a new one has the variables, functions, options and folder as they were after cell %d", how, d.savedAt),
		})
	}
	d.flushWaiting()
	if c == nil {
		return
	}
	switch {
	case status >= 128 && c.interrupts > 0:
		d.fail("Interrupted", "the cell was interrupted, and its shell ended", d.traceback())
	case status == 0:
		d.finish(kernel.Reply{ExitCode: &status})
	default:
		d.failStatus(status)
	}
}

// traceback says where the failure was, the innermost place first.
func (d *driver) traceback() []string {
	var lines []string
	for i, frame := range d.cell.failure.stack {
		part := strings.SplitN(frame, ":", 3)
		if len(part) != 3 {
			continue
		}
		at := part[0] + ", line " + part[1]
		if number, ok := strings.CutPrefix(part[0], "cell-"); ok {
			at = "cell " + number + ", line " + part[1]
		}
		if part[2] != "source" {
			at += ", in " + part[2]
		}
		text := d.sourceLine(part[0], part[1])
		if i == 0 && text == "" {
			text = firstLine(d.cell.failure.command)
		}
		lines = append(lines, "  "+at+": "+text)
	}
	return lines
}

// sourceLine is a line of a cell, if it is still known.
func (d *driver) sourceLine(file, line string) string {
	n, err := strconv.Atoi(line)
	text, rerr := os.ReadFile(d.room.path(filepath.Base(file)))
	if err != nil || rerr != nil || n < 1 {
		return ""
	}
	all := strings.Split(string(text), "\n")
	if n > len(all) {
		return ""
	}
	if n == 1 {
		// What the driver has put before the code is not the user's.
		if i := strings.Index(all[0], "DEBUG; "); i >= 0 {
			all[0] = all[0][i+len("DEBUG; "):]
		}
		all[0] = regexp.MustCompile(`^set -[eux]+;`).ReplaceAllString(all[0], "")
	}
	return strings.TrimSpace(all[n-1])
}

// syntaxLine is a line of Bash's complaint about a script.
var syntaxLine = regexp.MustCompile(`(?m)^(?:/bin/)?bash: line (\d+): (.*)$`)

// syntaxError says what is wrong with code that the shell could not read.
func syntaxError(code string) string {
	ctx, cancel := context.WithTimeout(context.Background(), helpLimit)
	defer cancel()
	said, _ := parse(ctx, code)
	for _, m := range syntaxLine.FindAllStringSubmatch(said, -1) {
		if !strings.HasPrefix(m[2], "warning:") {
			return fmt.Sprintf("line %s: %s", m[1], m[2])
		}
	}
	return "line 1: syntax error"
}

// place shows the line that a syntax error names.
func (d *driver) place(said string) []string {
	m := regexp.MustCompile(`^line (\d+)`).FindStringSubmatch(said)
	if m == nil {
		return nil
	}
	if text := d.sourceLine(d.cell.name, m[1]); text != "" {
		return []string{fmt.Sprintf("  cell %d, line %s: %s", d.cell.Cell, m[1], text)}
	}
	return nil
}
