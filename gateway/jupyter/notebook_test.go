package jupyter

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestNotebookLabels: a notebook that is stored in labels is found again, with any path, and a
// removed one leaves nothing.
func TestNotebookLabels(t *testing.T) {
	v := protocol.Session{ID: "s_abcdefghijklmnopqrstuvwxyz", Labels: map[string]string{"other": "1"}}
	before := maps.Clone(v.Labels)
	for _, path := range []string{
		"a.ipynb", "f/<b>&c.ipynb", strings.Repeat("ü", 500) + ".ipynb", strings.Repeat("\"", 500),
	} {
		n := notebook{id: "x", notebookLabel: notebookLabel{
			Kernel: "k1", Path: path, Name: "n", Type: "console", Free: true,
		}}
		second := notebook{id: "xy", notebookLabel: notebookLabel{Kernel: "k2", Path: "b"}}
		second.store(v.Labels, false)
		n.store(v.Labels, false)
		for key, value := range v.Labels {
			if len(key) > protocol.MaxLabelKey || len(value) > protocol.MaxLabelValue ||
				!validText(value) {
				t.Errorf("the label %q is not valid: %q", key, value)
			}
		}
		all := notebooksOf(v)
		if len(all) != 2 || all[0].notebookLabel != n.notebookLabel || all[0].id != "x" ||
			all[1].notebookLabel != second.notebookLabel {
			t.Errorf("%.20s: %+v", path, all)
		}
		n.Path = "short"
		n.store(v.Labels, false)
		if got := notebooksOf(v)[0]; got.Path != "short" {
			t.Errorf("after a change the path is %q", got.Path)
		}
		n.store(v.Labels, true)
		second.store(v.Labels, true)
		if !maps.Equal(v.Labels, before) {
			t.Errorf("%.20s: %v are left", path, v.Labels)
		}
	}
}

func validText(s string) bool { return strings.ToValidUTF8(s, "") == s && !hasControl(s) }

// TestNotebookPaths: the path of a notebook depends on the server that is asked.
func TestNotebookPaths(t *testing.T) {
	const session = "s_abcdefghijklmnopqrstuvwxyz"
	wide, one := &place{}, &place{session: session}
	home := protocol.Session{ID: session, Name: homeName(noderpc.Principal{})}
	for _, c := range []struct {
		owner       protocol.Session
		at          *place
		path        string
		wide, inner string
	}{
		{
			protocol.Session{ID: session},
			wide, "a-jvsc-1.ipynb", "a-jvsc-1.ipynb",
			"a-jvsc-1.ipynb",
		},
		{protocol.Session{ID: session}, wide, session + "/f/a.ipynb", session + "/f/a.ipynb", "f/a.ipynb"},
		{protocol.Session{ID: session}, one, "f/a.ipynb", session + "/f/a.ipynb", "f/a.ipynb"},
		{home, wide, "f/a.ipynb", "f/a.ipynb", "f/a.ipynb"},
		{home, one, "f/a.ipynb", "f/a.ipynb", "f/a.ipynb"},
	} {
		n := notebook{owner: c.owner}
		n.setPath(c.at, c.path)
		if a, b := n.pathAt(wide), n.pathAt(one); a != c.wide || b != c.inner {
			t.Errorf("%q is %q at the server-wide server and %q at the session's", c.path, a, b)
		}
	}
}

// labelNode is a node with one session. Another gateway changes its labels as well.
type labelNode struct {
	Node
	mu      sync.Mutex
	session protocol.Session
	before  func(labels map[string]string) // changes the labels before the first update
	updates int
}

func (n *labelNode) Call(_ context.Context, _ noderpc.Principal, op string,
	params, result any,
) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch op {
	case protocol.OpSessionGet:
		v := n.session
		v.Labels = maps.Clone(v.Labels)
		*result.(*protocol.Session) = v
	case protocol.OpSessionUpdate:
		n.updates++
		n.session.Labels = maps.Clone(*params.(protocol.SessionUpdate).Labels)
		if n.before != nil {
			n.before(n.session.Labels)
			n.before = nil
		}
	}
	return nil
}

// TestRelabel: a change that another gateway has overwritten is made again, and one without room is
// refused.
func TestRelabel(t *testing.T) {
	n := &labelNode{session: protocol.Session{ID: "s_x", Labels: map[string]string{"a": "1"}}}
	n.before = func(labels map[string]string) {
		delete(labels, "b")
		labels["c"] = "3"
	}
	s := New(Config{Node: n, Call: time.Minute})
	r := requestAt(t, "/jupyter/api/sessions")
	add := func(labels map[string]string) { labels["b"] = "2" }
	if err := s.relabel(r, "s_x", add); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "1", "b": "2", "c": "3"}
	if !maps.Equal(n.session.Labels, want) || n.updates != 2 {
		t.Errorf("after %d updates the labels are %v", n.updates, n.session.Labels)
	}
	dead := notebook{id: "dead", notebookLabel: notebookLabel{Kernel: "k9", Path: "a"}}
	dead.store(n.session.Labels, false)
	fill := func(labels map[string]string) {
		for i := range protocol.MaxLabels - 3 {
			labels["l"+string(rune('A'+i))] = "x"
		}
	}
	if err := s.relabel(r, "s_x", fill); err != nil || len(n.session.Labels) != protocol.MaxLabels {
		t.Errorf("the notebook of an ended kernel takes room: %v, %d labels", err,
			len(n.session.Labels))
	}
	more := func(labels map[string]string) { labels["more"] = "" }
	if err := s.relabel(r, "s_x", more); !fault.Is(err, fault.Exhausted) {
		t.Errorf("too many labels: %v", err)
	}
}

// TestLocks: one caller at a time has a lock, and locks that nobody uses are forgotten.
func TestLocks(t *testing.T) {
	var l locks
	unlock, err := l.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := l.lock(ctx, "a")
		failed <- err
	}()
	cancel()
	if err := <-failed; !fault.Is(err, fault.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
	got := make(chan func())
	go func() {
		next, _ := l.lock(t.Context(), "a")
		got <- next
	}()
	unlock()
	(<-got)()
	if len(l.all) != 0 {
		t.Errorf("%d locks are left", len(l.all))
	}
}
