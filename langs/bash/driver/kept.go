package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// keepTime is the time for a request to keep or restore that names none.
	keepTime = 30 * time.Second
	// maxHeader bounds the first line of a file with variables, in bytes.
	maxHeader = 64 << 10
)

// shellNames are variables whose values belong to one shell.
var shellNames = strings.Fields(`BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0
	BASH_CMDS BASH_COMMAND BASH_COMPAT BASH_LINENO BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO BASH_VERSION
	COMP_WORDBREAKS DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME FUNCNEST GROUPS HISTCMD HISTFILE
	HOSTNAME LINENO OLDPWD PIPESTATUS PPID PROMPT_COMMAND PS1 PS2 PWD RANDOM SECONDS SHELLOPTS SHLVL
	SRANDOM UID _`)

// keeping is a request to keep the state of the shell in a file, or to restore it. The file has a
// comment with a keptState, then the state as commands.
type keeping struct {
	kernel.Request
	number int // its files in the driver's folder have it
	about  keptState
}

// keptState describes a kept state.
type keptState struct {
	// Flags are the options of set that apply to the next cell: e, u, x.
	Flags string      `json:"flags"`
	Names kernel.Kept `json:"names"`
}

// beginKeeping begins to keep or to restore the state.
func beginKeeping(d *driver, r kernel.Request) {
	d.states++
	k := &keeping{Request: r, number: d.states}
	d.keeps[k.key()] = k
	if r.Keep == nil || !filepath.IsAbs(r.Keep.File) {
		k.settle(d, errors.New("the request has no file"))
		return
	}
	limit := keepTime
	if r.Keep.Seconds > 0 {
		limit = time.Duration(r.Keep.Seconds) * time.Second
	}
	d.later(limit, func() { k.settle(d, errors.New("the shell did not answer in time")) })
	if r.Op == "restore" {
		if err := k.readBack(d); err != nil {
			k.settle(d, err)
		}
		return
	}
	carry := func() {
		if d.keeps[k.key()] == nil {
			return // it came too late
		}
		if err := k.carry(d); err != nil {
			k.settle(d, err)
		}
	}
	if d.cell == nil {
		d.withState(carry)
		return
	}
	d.nextDue = time.Time{} // the cell ends: it was interrupted
	d.waiting = append(d.waiting, carry)
}

// endKeeping answers the running requests with an error.
func endKeeping(d *driver, err error) {
	for _, k := range d.keeps {
		k.settle(d, err)
	}
}

func (k *keeping) key() string { return strconv.FormatUint(k.ID, 10) }

// inRoom returns a file of the request in the driver's folder.
func (k *keeping) inRoom(d *driver, name string) string {
	return d.room.path(fmt.Sprintf("%s-%d", name, k.number))
}

// carry asks the shell for its state. Variables that have the values with which the shell began are
// not the user's, and another image may give them others.
func (k *keeping) carry(d *driver) error {
	left := slices.Clone(shellNames)
	for _, v := range readState(d.saved) {
		switch {
		case internal(v.name), slices.Contains(shellNames, v.name):
		case d.given[v] && v.flags == "f":
			left = append(left, v.name+"()")
		case d.given[v]:
			left = append(left, v.name)
		}
	}
	for _, name := range d.shell.holds() {
		k.about.Names.Count(name, false)
	}
	k.about.Flags = d.flags
	names := strings.Join(left, "\n") + "\n"
	if err := os.WriteFile(k.inRoom(d, "left"), []byte(names), 0o600); err != nil {
		return err
	}
	d.shell.send(d.room.hidden(
		"builtin declare -F __sg_carry || . "+quote(d.room.path("functions")),
		fmt.Sprintf("__sg_carry %s %s %s", quote(k.inRoom(d, "kept")), quote(k.inRoom(d, "left")),
			quote(k.inRoom(d, "names"))),
		"__sg_tell carried "+k.key()))
	return nil
}

// holds names what a shell has that no file keeps: jobs and open descriptors.
func (s *shell) holds() []string {
	var list []string
	pid := s.cmd.Process.Pid
	all := processes()
	for id, p := range all {
		if p.parent != pid {
			continue
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id))
		if err == nil {
			list = append(list, "job "+strings.TrimSpace(string(name)))
		}
	}
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, e := range open {
		// Bash has its own from 10 on.
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 2 && n < 10 {
			list = append(list, "descriptor "+e.Name())
		}
	}
	slices.Sort(list)
	return list
}

// store writes the file with the state that the shell has written.
func (k *keeping) store(d *driver) error {
	names, err := os.ReadFile(k.inRoom(d, "names"))
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(names)) {
		k.about.Names.Count(name, true)
	}
	state, err := os.Open(k.inRoom(d, "kept"))
	if err != nil {
		return err
	}
	defer state.Close()
	about, err := state.Stat()
	if err != nil {
		return err
	}
	if k.Keep.Bytes > 0 && about.Size() > k.Keep.Bytes-maxHeader {
		for _, name := range k.about.Names.Kept {
			k.about.Names.Count(name, false)
		}
		k.about.Names.LostCount += k.about.Names.KeptCount - len(k.about.Names.Kept)
		k.about.Names.Kept, k.about.Names.KeptCount = nil, 0
		return nil
	}
	k.about.Names = k.about.Names.Bounded()
	header, err := json.Marshal(k.about)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.Keep.File), 0o700); err != nil {
		return err
	}
	part := k.Keep.File + ".part"
	_ = os.Remove(part)
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.WriteString("# " + string(header) + "\n")
	if err == nil {
		_, err = io.Copy(out, state)
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(part, k.Keep.File)
	}
	if err != nil {
		_ = os.Remove(part)
		return err
	}
	k.about.Names.Written = true
	return nil
}

// readBack gives a kept state to the shell.
func (k *keeping) readBack(d *driver) error {
	if d.cell != nil {
		return errors.New("a cell runs")
	}
	text, err := os.ReadFile(k.Keep.File)
	if err != nil {
		return err
	}
	if err := os.Remove(k.Keep.File); err != nil {
		return err
	}
	header, _, _ := bytes.Cut(text[:min(len(text), maxHeader)], []byte("\n"))
	header, ok := bytes.CutPrefix(header, []byte("# "))
	if err := json.Unmarshal(header, &k.about); err != nil || !ok {
		return errors.New("the file of the variables is not complete")
	}
	if err := os.WriteFile(k.inRoom(d, "kept"), text, 0o600); err != nil {
		return err
	}
	// The prelude comes again, because the user may have functions of those names.
	d.shell.send(d.room.hidden(". "+quote(k.inRoom(d, "kept")), ". "+quote(d.room.path("prelude")),
		"__sg_save "+quote(d.room.state(k.number)), "__sg_tell restored "+k.key()))
	return nil
}

// finish ends a request when the shell has done its part.
func (k *keeping) finish(d *driver) error {
	for _, name := range []string{"left", "kept", "names"} {
		defer os.Remove(k.inRoom(d, name))
	}
	if k.Op == "keep" {
		return k.store(d)
	}
	for _, c := range k.about.Flags {
		if strings.ContainsRune("eux", c) && !strings.ContainsRune(d.flags, c) {
			d.flags += string(c)
		}
	}
	d.saved, d.savedAt = d.room.state(k.number), d.last
	there := map[string]bool{}
	for _, v := range readState(d.saved) {
		there[v.name] = true
	}
	said := k.about.Names
	k.about.Names = kernel.Kept{}
	for _, name := range said.Kept {
		k.about.Names.Count(name, there[name])
	}
	k.about.Names.KeptCount += max(0, said.KeptCount-len(said.Kept))
	return nil
}

// settle answers a request to keep or restore, unless it has been answered.
func (k *keeping) settle(d *driver, err error) {
	if d.keeps[k.key()] != k {
		return
	}
	delete(d.keeps, k.key())
	var r struct {
		Op     string `json:"op"`
		ID     uint64 `json:"id"`
		Status string `json:"status"`
		EName  string `json:"ename,omitempty"`
		EValue string `json:"evalue,omitempty"`
		kernel.Kept
	}
	r.Op, r.ID, r.Status, r.Kept = "reply", k.ID, "ok", k.about.Names.Bounded()
	if err != nil {
		r.Status, r.EName, r.EValue = "error", "OSError", err.Error()
	}
	body, _ := json.Marshal(r) // strings and numbers
	d.write(frame.Frame{Type: frame.Control, Body: body})
}
