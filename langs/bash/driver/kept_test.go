package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
)

// keptReply is the reply to keep and restore.
type keptReply struct {
	ID     uint64
	Status string
	EValue string
	kernel.Kept
}

// kept sends a request to keep or restore.
func (r *rig) kept(id uint64, op string, p kernel.Keep) keptReply {
	r.t.Helper()
	body, err := json.Marshal(kernel.Request{ID: id, Op: op, Keep: &p})
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(string(body))
	limit := time.After(time.Minute)
	for {
		select {
		case f := <-r.frames:
			var reply keptReply
			if f.Type == frame.Control && json.Unmarshal(f.Body, &reply) == nil && reply.ID == id {
				return reply
			}
		case <-limit:
			r.t.Fatalf("there is no reply to %s", op)
		}
	}
}

// cell runs a cell and returns what it has printed.
func (r *rig) cell(id uint64, code string) string {
	r.t.Helper()
	r.forget()
	reply := r.ask(kernel.Request{ID: id, Op: "execute", Cell: uint32(id), Code: code})
	if reply.Status != "ok" {
		r.t.Fatalf("%s: %+v", code, reply)
	}
	r.ask(kernel.Request{ID: id + 1000, Op: "execute", Cell: uint32(id + 1000), Code: "echo ,end,"})
	r.awaitPrinted(",end,\n")
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.TrimSuffix(r.printed.String(), ",end,\n")
}

// TestKeep keeps the state of a shell, and gives it to the shell of another driver.
func TestKeep(t *testing.T) {
	t.Setenv("GIVEN", "by the earlier image")
	t.Setenv("CHANGED", "before")
	r := newRig(t)
	p := kernel.Keep{File: filepath.Join(t.TempDir(), "kept", "k1"), Bytes: 1 << 20, Seconds: 20}
	folder := t.TempDir()
	const state = `x=41 CHANGED=after; export E='two
lines'; declare -A map=([a]=1 ['b c']=2); declare -i n=7; list=(1 2 3); declare -r fixed=yes
greet() { echo "hello $1"; cat <<'END'
declare -x NOT="a variable"
END
}
alias ll='ls -l'; shopt -s nullglob; set -u; umask 027
trap 'echo leaving' EXIT; trap 'echo failed' ERR; trap 'echo usr' USR1`
	r.cell(1, "cd "+quote(folder)+"\n"+state)
	r.cell(2, "exec 7</dev/null; sleep 1000 & :")
	kept := r.kept(3, "keep", p)
	want := []string{"greet", "CHANGED", "E", "fixed", "list", "map", "n", "x"}
	slices.Sort(kept.Kept.Kept)
	slices.Sort(want)
	if kept.Status != "ok" || !kept.Written || !slices.Equal(kept.Kept.Kept, want) ||
		!slices.Equal(kept.Lost, []string{"descriptor 7", "job sleep"}) {
		t.Fatalf("%+v", kept)
	}
	if about, err := os.Stat(p.File); err != nil || about.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", about, err)
	}
	r.cell(4, "[[ $x == 41 ]] && kill %1")

	t.Setenv("GIVEN", "by the new image")
	r = newRig(t)
	restored := r.kept(1, "restore", p)
	slices.Sort(restored.Kept.Kept)
	if restored.Status != "ok" || !slices.Equal(restored.Kept.Kept, want) || restored.LostCount != 0 {
		t.Fatalf("%+v", restored)
	}
	if _, err := os.Stat(p.File); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
	const look = `echo "$x $CHANGED $E ${map[b c]} $((n + 1)) ${#list[@]} $GIVEN ${NOT-}|$PWD"; greet you
(fixed=no) 2>/dev/null || echo fixed
alias ll; shopt -p nullglob; echo $-; umask; trap -p EXIT ERR USR1; bash -c 'echo $E'`
	const said = "41 after two\nlines 2 8 3 by the new image |"
	got := r.cell(2, look)
	for _, part := range []string{
		said + folder + "\n", "hello you\n", "\nfixed\n", "alias ll='ls -l'\n", "shopt -s nullglob\n",
		"0027\n", "trap -- 'echo leaving' EXIT\n", "trap -- 'echo failed' ERR\n",
		"trap -- 'echo usr' SIGUSR1\n", "\ntwo lines\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	// The options apply to cells, and the driver still ends them.
	for i, code := range []string{"echo $unset", "exit 3"} {
		id := uint64(3 + i)
		r.forget()
		if reply := r.ask(kernel.Request{
			ID: id, Op: "execute", Cell: uint32(id), Code: code,
		}); reply.Status != "error" {
			t.Errorf("%s: %+v", code, reply)
		}
	}
	r.awaitPrinted("leaving\n")
	if got := r.cell(5, "echo $x; kill -USR1 $$"); got != "41\nusr\n" {
		t.Errorf("in the next shell: %q", got)
	}
	// It can be kept once more.
	if kept := r.kept(6, "keep", p); kept.KeptCount != len(want) || kept.LostCount != 0 {
		t.Errorf("%+v", kept)
	}
}

// TestKeepRunning keeps the state although a cell runs, which was interrupted a moment ago.
func TestKeepRunning(t *testing.T) {
	r := newRig(t)
	p := kernel.Keep{File: filepath.Join(t.TempDir(), "k1"), Bytes: 1 << 20, Seconds: 20}
	r.send(1, "x=1; echo on; while :; do x=2; done")
	r.awaitPrinted("on\n")
	r.interrupt(1)
	if kept := r.kept(2, "keep", p); !kept.Written || !slices.Equal(kept.Kept.Kept, []string{"x"}) {
		t.Errorf("%+v", kept)
	}
	r.send(3, "trap '' INT; while :; do /bin/sleep 1; done")
	p.Seconds = 1
	if kept := r.kept(4, "keep", p); kept.Status != "error" || kept.Written {
		t.Errorf("while a cell runs: %+v", kept)
	}
}

// TestKeepFails answers requests that cannot be fulfilled, and continues.
func TestKeepFails(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "k1")
	r.cell(1, large+"x=1")
	if kept := r.kept(2, "keep", kernel.Keep{File: file, Bytes: 100_000}); kept.Written ||
		kept.KeptCount != 0 || !slices.Contains(kept.Lost, "many") {
		t.Errorf("a large state: %+v", kept)
	}
	if kept := r.kept(3, "keep", kernel.Keep{File: "/proc/none/k1"}); kept.Status != "error" {
		t.Errorf("a file that cannot be written: %+v", kept)
	}
	if kept := r.kept(4, "keep", kernel.Keep{}); kept.Status != "error" {
		t.Errorf("no file: %+v", kept)
	}
	for id, text := range []string{"", "x", "# {\n", "echo no header\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if kept := r.kept(uint64(10+id), "restore", kernel.Keep{File: file}); kept.Status != "error" {
			t.Errorf("%q: %+v", text, kept)
		}
	}
	if err := os.WriteFile(file, []byte("# {}\nkill -9 $$\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if kept := r.kept(20, "restore", kernel.Keep{File: file}); kept.Status != "error" {
		t.Errorf("a state that ends the shell: %+v", kept)
	}
	if got := r.cell(21, "echo $x"); got != "1\n" {
		t.Errorf("%q", got)
	}
}
