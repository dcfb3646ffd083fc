package opensandbox

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
)

// TestNetwork: a sandbox reaches what both the operator and the client allow.
func TestNetwork(t *testing.T) {
	for _, x := range []struct {
		operator []string
		policy   string
		want     []string
	}{
		{nil, `{"defaultAction":"allow"}`, nil},
		{[]string{"a.example"}, `null`, []string{"a.example"}},
		{[]string{"a.example"}, `{"defaultAction":"allow"}`, []string{"a.example"}},
		{[]string{"a.example"}, `{"defaultAction":"deny"}`, nil},
		{
			[]string{"a.example", "b.example"},
			`{"egress":[{"action":"allow","target":"b.example"},{"action":"allow","target":"c"}]}`,
			[]string{"b.example"},
		},
		{[]string{"*"}, `{"egress":[{"action":"allow","target":"c"}]}`, []string{"c"}},
	} {
		s := &Surface{cfg: Config{Settings: surfaces.Settings{Network: x.operator}}}
		var q creation
		if err := json.Unmarshal([]byte(`{"networkPolicy":`+x.policy+`}`), &q); err != nil {
			t.Fatal(err)
		}
		got := s.network(&q)
		if (got == nil) != (x.want == nil) || got != nil && !slices.Equal(got.Allow, x.want) {
			t.Errorf("%v and %s: %+v", x.operator, x.policy, got)
		}
	}
}

// TestDescribe: the states of sessions as states of sandboxes.
func TestDescribe(t *testing.T) {
	for want, v := range map[string]protocol.Session{
		stateRunning: {State: "paused"}, statePaused: {State: "hibernated", Suspended: true},
		stateResuming: {State: "resuming"}, stateFailed: {State: "lost", Reason: "memory"},
	} {
		if got := describe(v).Status.State; got != want {
			t.Errorf("%+v is %s", v, got)
		}
	}
}

// TestTargetOf reads addresses of ports of sandboxes.
func TestTargetOf(t *testing.T) {
	r := httptest.NewRequest("GET", Endpoint+"s_1/44772/files/info?path=a", nil)
	if got, err := targetOf(r); err != nil || got != (target{"s_1", Endpoint + "s_1/44772", 44772}) {
		t.Error(got, err)
	}
	for _, path := range []string{"s_1", "s_1/x/", "/1/", "s_1/0/", "s_1/70000/", "a.b/1/"} {
		if got, err := targetOf(httptest.NewRequest("GET", Endpoint+path, nil)); err == nil {
			t.Errorf("%s: %+v", path, got)
		}
	}
}
