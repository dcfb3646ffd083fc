package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

//go:embed prelude.bash
var prelude string

// Between the fields of what the shell tells, and behind each.
const (
	fieldEnd = "\x1f"
	eventEnd = '\x1e'
)

// maxEvent bounds what the shell tells at once, in bytes.
const maxEvent = 16 << 10

// shell is a Bash process.
type shell struct {
	cmd   *exec.Cmd
	lines chan string // to its standard input, by a goroutine of its own
	end   *os.ProcessState
	once  sync.Once
	up    bool   // it has sourced all
	state string // the file it began with; "" for none
}

// room is the driver's folder, over which the shells speak with it.
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
		// Open for both, so that it never ends and never blocks to open.
		if *file, err = os.OpenFile(r.path(name), os.O_RDWR, 0); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprintf("__sg_dir=%s\n%s", quote(dir), prelude)
	if err := os.WriteFile(r.path("prelude"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	return r, os.WriteFile(r.path("stdin"), nil, 0o600)
}

func (r *room) path(name string) string { return filepath.Join(r.dir, name) }

// quote makes one word of a text. What needs no quotes has none: an interrupt
// may cut a line in two while the shell reads it, and half a quote would
// swallow what follows.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// listen passes on what the shells tell, by fields. What is too long is none
// of the prelude's.
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

// answer answers a call of the prelude's. Only its first line counts.
func (r *room) answer(id, text string) error {
	text, _, _ = strings.Cut(text, "\n")
	_, err := r.answers.WriteString(id + " " + strings.ReplaceAll(text, "\x00", "") + "\n")
	return err
}

// tell writes into the shells' own FIFO, behind what they have told.
func (r *room) tell(fields ...string) {
	_, _ = r.events.WriteString(strings.Join(fields, fieldEnd) + string(eventEnd))
}

// start starts a shell that has sourced the prelude, and state if that is not
// empty. It writes its state to state-up and then says that it is up.
func (r *room) start(state string) (*shell, error) {
	// Interactive, for what a SIGINT does there; its complaint that there is
	// no terminal goes nowhere, and the prelude moves the true standard error
	// into its place.
	cmd := exec.Command("/bin/bash", "--noprofile", "--norc", "--noediting", "-i")
	cmd.Args[0] = "bash"
	in, err := cmd.StdinPipe()
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
			continue // the shell is gone
		}
	}()
	go func() {
		_ = cmd.Wait()
		s.end = cmd.ProcessState
		r.tell("gone", fmt.Sprint(cmd.Process.Pid))
	}()
	line := "exec 2>&3 3>&-; PS1= PS2=; . " + quote(r.path("prelude"))
	if state != "" {
		line += "; . " + quote(state) + " 2>/dev/null; . " + quote(r.path("prelude"))
	}
	s.send(line + "; __sg_save " + quote(r.path("state-up")) + "; __sg_tell up " + fmt.Sprint(cmd.Process.Pid))
	return s, nil
}

// send gives the shell a line to execute once it comes to it.
func (s *shell) send(line string) { s.lines <- line }

// close ends the shell at the end of what it has been given.
func (s *shell) close() { s.once.Do(func() { close(s.lines) }) }

// unborn reports whether an interrupt of the cell before has ended the shell
// before it knew what to do with one.
func (s *shell) unborn() bool {
	w := s.end.Sys().(syscall.WaitStatus)
	return !s.up && w.Signaled() && w.Signal() == syscall.SIGINT
}

// status is how the shell ended: an exit status as the shell has them, and a
// sentence.
func (s *shell) status() (int, string) {
	w := s.end.Sys().(syscall.WaitStatus)
	if w.Signaled() {
		return 128 + int(w.Signal()), "the shell was ended by " + signalName(w.Signal())
	}
	return w.ExitStatus(), fmt.Sprintf("the shell ended with status %d", w.ExitStatus())
}
