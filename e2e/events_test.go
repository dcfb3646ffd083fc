package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// eventPage reads a page of the feed.
func (s *Server) eventPage(
	ctx context.Context, t *testing.T, after, more string,
) protocol.EventPage {
	t.Helper()
	var p protocol.EventPage
	code, err := s.Get(ctx, "/v1/events?after="+url.QueryEscape(after)+more, &p)
	check(t, err)
	if code != http.StatusOK {
		t.Fatalf("the feed answers %d", code)
	}
	return p
}

// TestEvents follows the life of a session in the feed: by pages that wait, and as a stream that
// continues after the last event that was received. It kills the server between two pages. The
// cursor stays valid.
func TestEvents(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	cursor := srv.eventPage(ctx, t, protocol.LatestEvent, "").Cursor
	var v protocol.Session
	post := func(path string, body any) {
		t.Helper()
		if code, err := srv.JSON(ctx, http.MethodPost, path, body, &v); err != nil || code >= 300 {
			t.Fatalf("%s: %d %v", path, code, err)
		}
	}
	var kinds []string
	next := func() protocol.FeedEvent {
		t.Helper()
		p := srv.eventPage(ctx, t, cursor, "&limit=1&wait_seconds=30&types=session.*")
		if p.Gap || len(p.Events) != 1 {
			t.Fatalf("after %s: %+v", cursor, p)
		}
		cursor = p.Cursor
		kinds = append(kinds, p.Events[0].Type)
		return p.Events[0]
	}
	post("/v1/sessions", protocol.SessionCreate{Name: "one"})
	first := next()
	if first.Session != v.ID || first.Name != "one" || first.ID != cursor {
		t.Errorf("the event of %s is %+v", v.ID, first)
	}
	post("/v1/sessions/"+v.ID+"/pause", nil)
	next()
	post("/v1/sessions/"+v.ID+"/hibernate", nil)
	next()

	_ = srv.Halt(syscall.SIGKILL) // its status is that of the signal
	check(t, srv.Boot(ctx))       // it waits for the end of the old node
	post("/v1/sessions", nil)
	next()
	check(t, deleteSession(ctx, srv, v.ID))
	next()
	want := "session.created session.paused session.hibernated session.created session.deleted"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("the events are %s, want %s", got, want)
	}
	streamEvents(ctx, t, srv, first.ID, want)
}

func deleteSession(ctx context.Context, s *Server, id string) error {
	_, err := s.JSON(ctx, http.MethodDelete, "/v1/sessions/"+id, nil, nil)
	return err
}

// streamEvents reads the same events as a stream, and checks that the stream begins after
// Last-Event-ID.
func streamEvents(ctx context.Context, t *testing.T, srv *Server, after, want string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/events?types=session.*",
		nil)
	check(t, err)
	req.Header.Set("Authorization", "Bearer "+srv.Token)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", after)
	res, err := http.DefaultClient.Do(req)
	check(t, err)
	defer res.Body.Close()
	kinds := []string{"session.created"}
	lines := bufio.NewScanner(res.Body)
	for len(kinds) < len(strings.Fields(want)) && lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e protocol.FeedEvent
		check(t, json.Unmarshal([]byte(data), &e))
		kinds = append(kinds, e.Type)
	}
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("the stream has %s, want %s", got, want)
	}
}
