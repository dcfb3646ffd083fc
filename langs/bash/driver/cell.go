package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol/message"
	"golang.org/x/sys/unix"
)

// ordersStreams matches cells that write to standard error themselves.
var ordersStreams = regexp.MustCompile(`>\s*&\s*2|/dev/stderr`)

// showsOptions matches cells that trace their commands or print the options of their shell.
var showsOptions = regexp.MustCompile(
	`\bset\s+[-+]\w*[xT]|\bset\s+[-+]o\s*(?:$|[;&|<>)\n])|xtrace|functrace|SHELLOPTS|\$-|\$\{-`)

// maxAsked bounds the time limit of a question, in seconds.
const maxAsked = 1e6

// restricts matches cells that may restrict their shell. Such a shell cannot write to the driver, and
// could run no further cell.
var restricts = regexp.MustCompile(`\bset\s[^\n;&|]*(-[a-z]*r|restricted)`)

// next starts the next execution, if none runs.
func (d *driver) next() {
	if len(d.queue) == 0 {
		d.heldSince = time.Time{}
		return
	}
	if d.cell != nil || !d.ready || d.held() {
		return
	}
	r := d.queue[0]
	d.queue = d.queue[1:]
	c := &cell{Request: r, name: fmt.Sprintf("cell-%d", r.Cell)}
	d.cell = c
	if !r.Silent {
		d.count++
	}
	code := strings.ReplaceAll(r.Code, "\r\n", "\n")
	if strings.ContainsRune(code, 0) {
		d.fail("SyntaxError", "the code holds a zero byte", nil)
		return
	}
	if strings.HasPrefix(code, "#!") {
		c.program = true
		file := d.shell.beside(c, code)
		if file == "" {
			file = d.room.path(fmt.Sprintf("program-%d", r.Cell))
			if err := os.WriteFile(file, []byte(code), 0o700); err != nil {
				d.fail("OSError", err.Error(), nil)
				return
			}
		}
		code = quote(file) + "\n"
	}
	before := ""
	if !c.program {
		before = d.room.before(code, d.flags)
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
	c.sent, c.running = uptime(), d.running
	begins, first, leaves, after := "", "", "", ""
	if !r.Silent && !c.program {
		begins = strconv.Itoa(len(before))
	}
	if c.restricts = restricts.MatchString(code); c.restricts {
		first, leaves = "builtin trap - ERR; ", "[[ $- != *r* ]] || builtin kill -KILL $$; "
	}
	if c.restricts || strings.Contains(code, "ERR") {
		after = "; { __sg_errs; } 2>/dev/null"
	}
	file := d.room.path(c.name)
	if !c.program && strings.Contains(code, "BASH_SOURCE") {
		if place := d.shell.beside(c, before+code); place != "" {
			file = place
		}
		first += "BASH_ARGV0=" + quote(file) + "; " // a script compares the two
	}
	d.shell.send(first + fmt.Sprintf("__sg_probe %d %s && . $__sg_none%s <%s; %s%s%s", r.Cell, begins,
		quote(file), quote(d.room.path("stdin")), leaves, d.room.endCommand("$?"),
		after))
}

// asksPlace matches code that looks for the folder of its own file.
var asksPlace = regexp.MustCompile(`BASH_SOURCE|(dirname|realpath|readlink)\W+0`)

// beside writes code that looks for the folder of its own file to the shell's folder, where a user
// would have saved it. The file is there until the cell has ended. It returns the path in the folder,
// or an empty string.
func (s *shell) beside(c *cell, code string) string {
	folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", s.cmd.Process.Pid))
	if err != nil || !asksPlace.MatchString(code) {
		return ""
	}
	file := filepath.Join(folder, fmt.Sprintf(".cell-%d", c.Cell))
	if os.WriteFile(file, []byte(code), 0o700) != nil {
		return ""
	}
	c.beside = file
	return "./" + filepath.Base(file)
}

// endsBefore is the end of commands before a cell's code, except options of set.
const endsBefore = "__sg_on=; "

// before returns the commands that run before a cell's code, in its first line. flags are the
// options of set that apply to it.
func (r *room) before(code, flags string) string {
	text := ""
	if trap, err := os.Stat(r.path("debug")); err == nil && trap.Size() > 0 {
		text = ". $__sg_none" + quote(r.path("debug")) + "; " + endsBefore
	} else if ordersStreams.MatchString(code) && !strings.Contains(flags, "x") &&
		!showsOptions.MatchString(code) {
		text = "set -T; __sg_mixed=yes; builtin trap '[[ $__sg_mixed == yes && " +
			`$BASH_COMMAND != *@(">&2"|/dev/stderr)* ]] || __sg_debug "$BASH_COMMAND"' DEBUG; ` +
			endsBefore
	}
	if flags != "" {
		text += "set $__sg_none-" + flags + ";"
	}
	return text
}

// event processes an event of the shell.
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
		if d.shell.up || arg(1) != fmt.Sprint(d.shell.cmd.Process.Pid) {
			return
		}
		d.shell.up, d.repeats, d.unborn = true, 0, 0
		if d.saved = d.shell.state; d.saved == "" || len(d.waiting) > 0 {
			d.save()
		}
		d.next()
	case "fence":
		d.fenceReached(number(1))
	case "sync":
		d.drained(1, 2)
		_ = d.room.answer(arg(1), "ok")
	case "ask":
		d.ask(arg(1), arg(2) != "", arg(3), arg(4))
	case "display":
		_ = d.room.answer(arg(1), d.display(arg(2), arg(3)))
	case "value":
		go func() { _ = d.room.answer(arg(1), share(arg(2), arg(3), arg(4), arg(5))) }()
	case "syntax":
		if d.cell != nil && number(1) == int(d.cell.Cell) {
			d.cell.syntax = syntaxError(d.cell.Code)
		}
	case "done":
		if d.cell != nil && number(1) == int(d.cell.Cell) {
			d.cell.failure = failure{number(5), arg(6), strings.Fields(arg(7))}
			if number(4) != 0 {
				d.running = number(4)
			}
			d.done(number(2), arg(3))
		}
	case "leaving":
		if d.cell != nil {
			d.cell.leaving = true
		}
	case "exit":
		if d.cell != nil {
			status := number(1)
			d.cell.exit = &status
			d.cell.failure = failure{number(2), arg(3), strings.Fields(arg(4))}
			d.killLeft()
		}
	case "saved":
		d.savedTo(number(1), time.Duration(number(2))*time.Microsecond)
	case "reseeded":
		if r, ok := d.reseeds[arg(1)]; ok {
			delete(d.reseeds, arg(1))
			_ = os.Remove(d.room.path(filepath.Base(arg(1))))
			d.saved, d.savedAt, d.nextDue = d.room.state(r.state), d.last, time.Time{}
			d.noteFirst() // the session's variables are not the user's either
			d.reply(message.Reply{ID: r.id})
		}
	case "carried", "restored":
		if k := d.keeps[arg(1)]; k != nil {
			k.settle(d, k.finish(d))
		}
	case "gone":
		if arg(1) == fmt.Sprint(d.shell.cmd.Process.Pid) {
			d.gone()
		}
	}
}

// ask forwards a request for input, which ends after limit seconds unless that is empty.
func (d *driver) ask(id string, silent bool, prompt, limit string) {
	c := d.cell
	if c == nil || c.NoInput {
		_ = d.room.answer(id, "refused")
		return
	}
	c.asking = id
	if seconds, err := strconv.ParseFloat(limit, 64); err == nil {
		d.later(time.Duration(min(seconds, maxAsked)*float64(time.Second)), func() {
			if c.asking == id {
				c.asking = ""
				_ = d.room.answer(id, "late")
			}
		})
	}
	d.message(c.Cell, message.InputRequestType,
		message.InputRequest{Prompt: prompt, Password: silent})
}

// drained waits for a moment until the agent has read the descriptors.
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
