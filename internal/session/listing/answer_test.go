package listing

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// TestAnswer checks that an answer without sessions that have left is a list for clients, and that
// other answers arrive as they were sent.
func TestAnswer(t *testing.T) {
	q, err := Parse(protocol.SessionQuery{Name: "n", Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	list := q.Page([]protocol.Session{{ID: "a", Name: "n"}}, false)
	plain, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(Answer{SessionList: list}); err != nil ||
		string(got) != string(plain) {
		t.Errorf("%s %v, want %s", got, err, plain)
	}
	left := q.PageOfLeft([]Left{
		{protocol.Session{ID: "x", Name: "n"}, 5},
		{protocol.Session{ID: "y", Name: "other"}, 6},
		{protocol.Session{ID: "z", Name: "n"}, 7},
		{protocol.Session{ID: "zz", Name: "n"}, 8},
	})
	text, err := json.Marshal(Answer{SessionList: list, Left: left})
	if err != nil {
		t.Fatal(err)
	}
	var got Answer
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Sessions) != 1 || got.Sessions[0].ID != "a" || len(got.Left) != 2 ||
		got.Left[0].Session.ID != "x" || got.Left[1].AgoMS != 7 {
		t.Errorf("%s is %+v", text, got)
	}
	if all := got.Since(6 * time.Millisecond); len(all) != 1 || all[0].ID != "x" {
		t.Errorf("since 6 ms: %+v", all)
	}
}
