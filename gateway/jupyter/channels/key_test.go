package channels

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/protocol"
)

// TestKeys: each gateway reads the session and the id of a request from the key of its cell.
func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range []wire.Header{
		{Session: "a", ID: "a_1"},
		{Session: "a", ID: "b"},
		{Session: "a", ID: "ab"},
		{Session: "3f0d64d4-6e9c-4c9b-8b16-7be5f0ba1a73", ID: "3f0d64d4-6e9c-4c9b-8b16-7be5f0ba1a73_12_7"},
	} {
		key := keyOf(h)
		if got := headerOf(key); got.Session != h.Session || got.ID != h.ID ||
			got.Type != "execute_request" {
			t.Errorf("%+v has the key %s, which is %+v", h, key, got)
		}
		seen[key] = true
	}
	for _, h := range []wire.Header{
		{Session: "a", ID: strings.Repeat("x", 200)},
		{Session: "a", ID: strings.Repeat("x", 201)},
		{Session: "a/b", ID: "1"},
		{Session: "a", ID: "b c"},
		{Session: "", ID: "1"},
		{Session: "a", ID: "/b"}, // not the same as ab
	} {
		key := keyOf(h)
		if len(key) > protocol.MaxKey || !visible(key) || seen[key] {
			t.Errorf("%.40v has the key %q", h, key)
		}
		if got := headerOf(key); got.ID != key || got.Session != "" {
			t.Errorf("the key %s of no readable header is %+v", key, got)
		}
		seen[key] = true
	}
	if got := headerOf("other"); got.ID != "other" || got.Session != "" {
		t.Errorf("the cell of another client has %+v", got)
	}
}

// TestInputIDs: the id of a request for input names it.
func TestInputIDs(t *testing.T) {
	c := &Conn{o: Options{ID: "k1"}}
	x := &cell{number: 12, key: "a"}
	a, ok := c.answered(encode(wire.Header{ID: c.inputID(x, 3), Type: "input_request"}))
	if a.cell != 12 || a.request != 3 || !ok {
		t.Errorf("%+v %v", a, ok)
	}
	for _, y := range []*cell{nil, x, {number: 13, key: "b"}} {
		if !a.meets(y) {
			t.Errorf("%+v is not for %+v", a, y)
		}
	}
	if again := (&cell{number: 12, key: "b"}); a.meets(again) {
		t.Error("an answer for a lost cell is for the next one with its number")
	}
	old, ok := c.answered(json.RawMessage(`{"msg_id": "k1_input_12_3"}`))
	if old.cell != 12 || old.request != 3 || !ok || !old.meets(&cell{number: 12, key: "b"}) {
		t.Errorf("an answer to an earlier version: %+v %v", old, ok)
	}
	for _, parent := range []string{
		`{}`, ``, `[]`, `{"msg_id": 5}`, `{"msg_id": "k1_input_"}`, `{"msg_id": "k1_input_1_x"}`,
		`{"msg_id": "k2_input_1_2"}`, `{"msg_id": "k1_input_99999999999999_1"}`,
	} {
		if _, ok := c.answered(json.RawMessage(parent)); ok {
			t.Errorf("the parent %s names a request", parent)
		}
	}
}

// TestChoose selects entries of the history as a client asks for them.
func TestChoose(t *testing.T) {
	all := []protocol.HistoryEntry{
		{Count: 1, Code: "a = 1"},
		{Count: 2, Code: "b"},
		{Count: 3, Code: "a = 1"},
		{Count: 4, Code: "a\n+b"},
	}
	for request, want := range map[string]string{
		`{"hist_access_type": "tail", "n": 2}`:                                               `[[0,3,"a = 1"],[0,4,"a\n+b"]]`,
		`{"hist_access_type": "range", "start": 2, "stop": 3}`:                               `[[0,2,"b"]]`,
		`{"hist_access_type": "range", "start": 4}`:                                          `[[0,4,"a\n+b"]]`,
		`{"hist_access_type": "range", "session": 1}`:                                        `[]`,
		`{"hist_access_type": "search", "pattern": "a*"}`:                                    `[[0,1,"a = 1"],[0,3,"a = 1"],[0,4,"a\n+b"]]`,
		`{"hist_access_type": "search", "pattern": "a = ?", "unique": 1}`:                    ``,
		`{"hist_access_type": "search", "pattern": "a = ?", "unique": true, "output": true}`: `[[0,3,["a = 1",null]]]`,
		`{"hist_access_type": "search", "pattern": "a.1"}`:                                   `[]`,
	} {
		var p historyRequest
		if err := json.Unmarshal([]byte(request), &p); err != nil {
			if want != "" {
				t.Error(err)
			}
			continue
		}
		got, err := json.Marshal(p.choose(all))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

// TestLateStates: a client without a position gets the states of its own cells alone from the replayed
// part of the log.
func TestLateStates(t *testing.T) {
	own, other := &cell{own: true}, &cell{}
	for _, c := range []struct {
		log        log
		own, other bool
	}{
		{log{}, true, false}, {log{exact: true}, true, true}, {log{live: true}, true, true},
	} {
		if c.log.shown(own) != c.own || c.log.shown(other) != c.other {
			t.Errorf("%+v", c)
		}
	}
}

// TestCellsAreForgotten: a connection remembers a bounded number of cells.
func TestCellsAreForgotten(t *testing.T) {
	var l log
	l.prepare(false, protocol.Attached{})
	for i := range uint32(2 * maxCells) {
		l.cellOf(i + 1)
	}
	if len(l.cells) != maxCells || len(l.order) != maxCells || l.cells[2*maxCells] == nil {
		t.Errorf("%d cells in %d places", len(l.cells), len(l.order))
	}
}
