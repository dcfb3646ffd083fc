package control

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
)

// maxLogs is the largest number of entries in a response, and the default.
const maxLogs = protocol.MaxEvents

// levels are the levels of log entries, the least important first.
var levels = []string{"debug", "info", "warn", "error"}

// logLine is an entry of a log as plain text.
type logLine struct {
	Timestamp string `json:"timestamp"`
	Line      string `json:"line"`
}

// logEntry is an entry of a log.
type logEntry struct {
	Timestamp string            `json:"timestamp"`
	Level     string            `json:"level"`
	Message   string            `json:"message"`
	Fields    map[string]string `json:"fields"`

	ms int64
}

// logsBody is the result of logs of the first generation.
type logsBody struct {
	Logs    []logLine  `json:"logs"`
	Entries []logEntry `json:"logEntries"`
}

// logs2Body is the result of logs of the second generation.
type logs2Body struct {
	Logs []logEntry `json:"logs"`
}

// logs answers with the log of a sandbox: the events of its session.
func (s *Plane) logs(w http.ResponseWriter, r *http.Request) error {
	start, err := number(r, "start", 0, 1<<50)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", 1, maxLogs)
	if err != nil {
		return err
	}
	all, err := s.entries(r, func(e logEntry) bool { return e.ms >= start })
	if err != nil {
		return err
	}
	if limit > 0 {
		all = all[:min(int(limit), len(all))]
	}
	b := logsBody{Logs: []logLine{}, Entries: all}
	for _, e := range all {
		b.Logs = append(b.Logs, logLine{e.Timestamp, e.Message})
	}
	return surface.WriteJSON(w, http.StatusOK, b)
}

// logs2 is logs with a direction and filters.
func (s *Plane) logs2(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	cursor, err := number(r, "cursor", 0, 1<<50)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", 1, maxLogs)
	if err != nil {
		return err
	}
	back := q.Get("direction") == "backward"
	if d := q.Get("direction"); d != "" && d != "forward" && !back {
		return invalid("direction", "it is forward or backward")
	}
	least := slices.Index(levels, q.Get("level"))
	if least < 0 && q.Get("level") != "" {
		return invalid("level", "it is one of %s", strings.Join(levels, ", "))
	}
	all, err := s.entries(r, func(e logEntry) bool {
		return (cursor == 0 || !back && e.ms >= cursor || back && e.ms <= cursor) &&
			slices.Index(levels, e.Level) >= least && strings.Contains(e.Message, q.Get("search"))
	})
	if err != nil {
		return err
	}
	if back {
		slices.Reverse(all)
	}
	if limit > 0 {
		all = all[:min(int(limit), len(all))]
	}
	return surface.WriteJSON(w, http.StatusOK, logs2Body{all})
}

// entries returns the log of a request's sandbox, oldest entry first.
func (s *Plane) entries(r *http.Request, passes func(logEntry) bool) ([]logEntry, error) {
	v, err := s.find(r)
	if err != nil {
		return nil, err
	}
	var page protocol.EventPage
	if err := s.call(r, protocol.OpEventList, protocol.EventQuery{
		Session: v.ID, Limit: protocol.MaxEvents,
	}, &page); err != nil {
		return nil, err
	}
	all := []logEntry{}
	for _, e := range page.Events {
		entry := logEntry{
			Timestamp: stamp(e.TimeMS), Level: "info", Message: e.Type,
			Fields: map[string]string{"event": e.ID}, ms: e.TimeMS,
		}
		switch e.Type {
		case protocol.FeedSessionLost:
			entry.Level = "error"
		case protocol.FeedSessionExpired, protocol.FeedQuotaReached, protocol.FeedEventsLost:
			entry.Level = "warn"
		}
		if len(e.Data) > 0 {
			entry.Message += " " + string(e.Data)
		}
		if passes(entry) {
			all = append(all, entry)
		}
	}
	return all, nil
}
