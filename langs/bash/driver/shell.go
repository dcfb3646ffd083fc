package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

var (
	//go:embed prelude.bash
	prelude string
	//go:embed functions.bash
	functions string
)

// The separators between and after the fields of an event of the shell.
const (
	fieldEnd = "\x1f"
	eventEnd = '\x1e'
)

// maxEvent bounds the size of an event, in bytes.
const maxEvent = 16 << 10

// shell is a Bash process.
type shell struct {
	cmd   *exec.Cmd
	lines chan string // written to its standard input by a separate goroutine
	end   *os.ProcessState
	once  sync.Once
	up    bool   // it has sourced everything
	state string // the file that it began with; "" means none
}

// room is the driver's folder with the files and FIFOs through which it communicates with the
// shells.
type room struct {
	dir     string
	events  *os.File
	answers *os.File
}

func newRoom() (*room, error) {
	dir, err := os.MkdirTemp("", ".bash-")
	if err != nil {
		return nil, err
	}
	r := &room{dir: dir}
	for name, file := range map[string]**os.File{"events": &r.events, "answers": &r.answers} {
		if err := syscall.Mkfifo(r.path(name), 0o600); err != nil {
			return nil, err
		}
		// Opened for reading and writing, so that it never ends and opening never blocks.
		if *file, err = os.OpenFile(r.path(name), os.O_RDWR, 0); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprintf("__sg_dir=%s\nPROMPT_COMMAND=%s\n__sg_exits=%s\n%s", quote(dir),
		quote(r.endCommand("$?")), quote(r.hidden("__sg_status=$?", r.calls("__sg_exit"))), prelude)
	for name, text := range map[string]string{
		"prelude": text, "functions": functions, "stdin": "",
	} {
		if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// endCommand returns the command that ends the cell, if one is running, with a status.
func (r *room) endCommand(status string) string {
	return r.hidden("__sg_status="+status, "[[ ! $__sg_cell ]] || { "+r.calls("__sg_off")+"; }")
}

// hidden joins commands of the driver and hides their traces.
func (r *room) hidden(commands ...string) string {
	return "{ " + strings.Join(commands, "; ") + "; } >/dev/null 2>&1"
}

// calls returns the commands that call a function of the driver although the cell may have removed
// all functions. First they remove a DEBUG trap. A trap that the function trap has set does not run
// for commands whose text has __sg_.
func (r *room) calls(function string) string {
	return "builtin trap - DEBUG $__sg_none; builtin declare -F " + function + " || . " +
		quote(r.path("functions")) + "; " + function
}

// state returns the file of a state of the shell.
func (r *room) state(number int) string { return r.path(fmt.Sprintf("state-%d", number)) }

func (r *room) path(name string) string { return filepath.Join(r.dir, name) }

// quote makes one word of a text. It adds quotes only if the text needs them: an interrupt may cut
// a line in two while the shell reads it, and half a quote would swallow the rest.
func quote(s string) string {
	if s != "" && strings.Trim(s,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// listen forwards the shells' events, split into fields. An event that is too long does not come
// from the prelude.
func (r *room) listen(events chan<- []string) {
	in := bufio.NewReaderSize(r.events, maxEvent)
	for {
		part, err := in.ReadSlice(eventEnd)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return
		}
		events <- strings.Split(string(part[:len(part)-1]), fieldEnd)
	}
}

// answer answers a call of the prelude. Only its first line is used.
func (r *room) answer(id, text string) error {
	text, _, _ = strings.Cut(text, "\n")
	_, err := r.answers.WriteString(id + " " + strings.ReplaceAll(text, "\x00", "") + "\n")
	return err
}

// notify writes into the shells' own FIFO, after their events.
func (r *room) notify(fields ...string) {
	_, _ = r.events.WriteString(strings.Join(fields, fieldEnd) + string(eventEnd))
}

// start starts a shell that sources the prelude, and state if that is not empty. Then the shell
// reports that it is up. SIGINT cannot cut that off: the shell either has not begun, or ignores it.
func (r *room) start(state string) (*shell, error) {
	// An interactive shell, for its handling of SIGINT. Its warning that there is no terminal is
	// discarded. The prelude installs the real standard error.
	cmd := exec.Command("/bin/bash", "--noprofile", "--norc", "--noediting", "-i")
	cmd.Args[0] = "bash"
	// The agent interrupts the driver's process group; the driver decides which processes of the
	// shell's group get the signal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = r.writeBegin(state)
	}
	if err != nil {
		return nil, err
	}
	cmd.Stdout = os.Stdout
	cmd.ExtraFiles = []*os.File{os.Stderr}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &shell{cmd: cmd, lines: make(chan string, 64), state: state}
	go func() {
		for line := range s.lines {
			if _, err := in.Write([]byte(line + "\n")); err != nil {
				break
			}
		}
		_ = in.Close()
		for range s.lines {
			continue // the shell has ended
		}
	}()
	go func() {
		_ = cmd.Wait()
		s.end = cmd.ProcessState
		r.notify("gone", fmt.Sprint(cmd.Process.Pid))
	}()
	r.setUp(s)
	return s, nil
}

// setUp makes the shell run its first lines, from a file: an interrupt may cut a line in two while
// the shell reads it, but the second half of this line does nothing.
func (r *room) setUp(s *shell) { s.send(". " + quote(r.path("begin"))) }

// writeBegin writes what a shell does first.
func (r *room) writeBegin(state string) error {
	prelude := ". " + quote(r.path("prelude")) + "\n"
	text := "trap '' INT\nexec 2>&3 3>&-\nPS1='' PS2=''\n" + prelude
	if state != "" {
		text += ". " + quote(state) + " 2>/dev/null\n" + prelude
	}
	text += "__sg_tell up $$\n"
	if !trapsInterrupt(state) {
		text += "trap - INT\n"
	}
	return os.WriteFile(r.path("begin"), []byte(text), 0o600)
}

// trapsInterrupt reports whether a state has its own trap for SIGINT.
func trapsInterrupt(state string) bool {
	text, _ := os.ReadFile(state)
	return bytes.Contains(text, []byte("' SIGINT\n"))
}

// send queues a line for the shell.
func (s *shell) send(line string) { s.lines <- line }

// close ends the shell after the queued lines.
func (s *shell) close() { s.once.Do(func() { close(s.lines) }) }

// status returns how the shell ended: an exit status in the shells' form, and a sentence.
func (s *shell) status() (int, string) {
	w := s.end.Sys().(syscall.WaitStatus)
	if w.Signaled() {
		return 128 + int(w.Signal()), "the shell was ended by " + signalName(w.Signal())
	}
	return w.ExitStatus(), fmt.Sprintf("the shell ended with status %d", w.ExitStatus())
}
