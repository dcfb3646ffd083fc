package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// since returns the changes of a folder after a cursor, and the next cursor.
func (r *rig) since(folder, cursor string) (list []string, next string, truncated bool) {
	r.t.Helper()
	page, err := r.Files.Changes(r.ctx, wire.ChangesSince{Path: folder, Since: cursor})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range page.Files {
		path, _ := filepath.Rel(folder, f.Path)
		list = append(list, path+" "+f.Kind)
	}
	slices.Sort(list)
	return list, page.Cursor, page.Truncated
}

// folder makes a folder of the user beside the home.
func (r *rig) folder(name string) string {
	r.t.Helper()
	path := filepath.Join(r.root, name)
	for _, err := range []error{os.Mkdir(path, 0o755), os.Chown(path, r.uid, 1000)} {
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return path
}

// TestChangesOfFolders records the changes of several folders, each by itself, and refuses more of
// them than its limit. A folder that another one replaces is watched again.
func TestChangesOfFolders(t *testing.T) {
	r := newRig(t)
	work := r.folder("work")
	_, err := r.Files.Changes(r.ctx, wire.ChangesSince{Path: filepath.Join(r.root, "none")})
	agenttest.WantKind(t, err, fault.NotFound)
	_, inWork, _ := r.since(work, "")
	_, inHome, _ := r.since(r.home, "")
	r.program(1, fmt.Sprintf("mkdir %s/d; touch %[1]s/d/a %[1]s/.hidden %[2]s/b", work, r.home))
	if list, next, _ := r.since(work, inWork); !slices.Equal(list, []string{"d/a created"}) {
		t.Errorf("the folder: %q", list)
	} else {
		inWork = next
	}
	if list, _, _ := r.since(r.home, inHome); !slices.Equal(list, []string{"b created"}) {
		t.Errorf("the home: %q", list)
	}
	if err := os.Rename(work, work+".old"); err != nil {
		t.Fatal(err)
	}
	r.folder("work")
	if _, next, truncated := r.since(work, inWork); !truncated {
		t.Error("the replacement of the folder is not reported")
	} else {
		inWork = next
	}
	r.program(2, "touch "+work+"/c")
	if list, _, truncated := r.since(work, inWork); !slices.Equal(list,
		[]string{"c created"}) || truncated {
		t.Errorf("after the replacement: %q, truncated %v", list, truncated)
	}
	for i := range 6 {
		r.since(r.folder(fmt.Sprint(i)), "")
	}
	_, err = r.Files.Changes(r.ctx, wire.ChangesSince{Path: r.folder("one more")})
	agenttest.WantKind(t, err, fault.Exhausted)
}

// TestSource starts a program together with its file, which is no change unless the program changes
// it.
func TestSource(t *testing.T) {
	r := newRig(t)
	work := r.folder("work")
	path := filepath.Join(work, "main.sh")
	_, cursor, _ := r.since(work, "")
	start := func(ch uint32, content string) error {
		_, err := r.StartProcess(r.ctx, ch, wire.StartProcess{
			Argv:   []string{"/bin/sh", path},
			Source: &wire.Source{Path: path, Content: content},
		})
		if err == nil {
			r.sink.WaitExit(t, ch)
		}
		return err
	}
	if err := start(1, "stat -c %u $0"); err != nil {
		t.Fatal(err)
	}
	if got := r.sink.Text(1, 0); got != fmt.Sprintln(r.uid) {
		t.Errorf("the program prints %q", got)
	}
	if list, _, _ := r.since(work, cursor); len(list) != 0 {
		t.Errorf("a program that changes nothing: %q", list)
	}
	agenttest.WantKind(t, start(2, "echo no"), fault.Conflict)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := start(3, "touch "+work+"/new; echo more >>$0"); err != nil {
		t.Fatal(err)
	}
	if list, _, _ := r.since(work, cursor); len(list) != 2 ||
		!strings.HasPrefix(list[0], "main.sh ") || list[1] != "new created" {
		t.Errorf("a program that changes itself: %q", list)
	}
}
