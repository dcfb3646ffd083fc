package config

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/surfaces"
)

// TestSurfaces checks that settings of a surface change its defaults one by one, and survive the way
// to the gateway.
func TestSurfaces(t *testing.T) {
	const file = "sessions: {idle_delete: 100h}\nsurfaces:\n  openterminal:\n    template: science\n" +
		"    network: [python, git.example.org]\n    memory: 2GiB\n    max_sessions: 3\n" +
		"    user_header: X-Name\n    labels: [\"team:research\"]\n  mcp: {idle_delete: 0}\n"
	c, err := load(t, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	c = new(Config)
	if err := json.Unmarshal(raw, c); err != nil {
		t.Fatal(err)
	}
	want := surfaces.Settings{
		Template: "science", Network: []string{"python", "git.example.org"},
		IdleDelete: 24 * time.Hour, Memory: 2 << 30, MaxSessions: 3, UserHeader: "X-Name",
		ConversationHeader: "X-Session-Id", Labels: map[string]string{"team": "research"},
	}
	if got := c.Surface(surfaces.OpenTerminal); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got := c.Surface(surfaces.MCP); got.IdleDelete != 0 || got.Timeout != 10*time.Minute {
		t.Errorf("a zero is no value: %+v", got)
	}
	c, err = load(t, file+"  azure: {timeout: 5s}\n",
		[]string{"SANDGATE_SURFACES={dify: {timeout: 7s}}", "SANDGATE_SESSIONS_IDLE_DELETE=1h"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Surfaces) != 1 || c.Surface(surfaces.Dify).Timeout != 7*time.Second ||
		c.Surface(surfaces.MCP).IdleDelete != time.Hour {
		t.Errorf("the variable does not replace the table: %v", c.Surfaces)
	}
}
