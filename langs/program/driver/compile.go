package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/sandgate/sandgate/protocol/message"
)

// maxMessages bounds the compiler's messages, in bytes. The first ones stay: later ones often
// follow from them.
const maxMessages = 128 << 10

// compileType is the MIME type of a compiler's messages about a program that it compiled.
const compileType = "application/vnd.sandgate.compile+json"

// status is how a process has ended.
type status struct{ syscall.WaitStatus }

func (s status) failed() bool { return s.code() != 0 }

// code returns the exit status, 128+n after the signal n.
func (s status) code() int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

func (s status) describe() string { return fmt.Sprintf("the program ended with status %d", s.code()) }

// messages collects the beginning of a compiler's output.
type messages struct {
	text    strings.Builder
	dropped int
}

func (m *messages) Write(p []byte) (int, error) {
	n := min(len(p), maxMessages-m.text.Len())
	m.text.Write(p[:n])
	m.dropped += len(p) - n
	return len(p), nil
}

// compiled is the result of a compiler.
type compiled struct {
	status status
	text   string
}

// compile runs a compiler and returns its messages. The names of its files lose the folder dir.
func compile(argv, env []string, dir string, enter func(group int) bool) (compiled, error) {
	var m messages
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &m, &m
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: enter != nil}
	if err := cmd.Start(); err != nil {
		return compiled{}, err
	}
	if enter != nil && !enter(cmd.Process.Pid) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	_ = cmd.Wait() // its state says more
	if enter != nil {
		enter(0)
	}
	text := strings.ReplaceAll(m.text.String(), dir+string(os.PathSeparator), "")
	if m.dropped > 0 {
		text += fmt.Sprintf("\n[%d more bytes of messages]\n", m.dropped)
	}
	wait, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return compiled{status{wait}, text}, nil
}

func (d *driver) compile(c *cell, argv []string) (compiled, error) {
	return compile(argv, d.environment(), d.dir, c.setGroup)
}

// first returns the line that best says what is wrong.
func (r compiled) first() string {
	line := ""
	for l := range strings.Lines(r.text) {
		l = strings.TrimSpace(l)
		if strings.Contains(strings.ToLower(l), "error") {
			return l
		}
		if line == "" {
			line = l
		}
	}
	if line == "" {
		line = fmt.Sprintf("the compiler ended with status %d", r.status.code())
	}
	return line
}

func (r compiled) lines() []string {
	if r.text == "" {
		return nil
	}
	return strings.Split(strings.TrimRight(r.text, "\n"), "\n")
}

// bundle returns the messages as a display.
func (r compiled) bundle() message.Bundle {
	plain, _ := json.Marshal(r.text)
	form, _ := json.Marshal(map[string]any{"exit_code": r.status.code(), "messages": r.text})
	return message.Bundle{
		Data:     map[string]json.RawMessage{"text/plain": plain, compileType: form},
		Metadata: map[string]json.RawMessage{},
	}
}
