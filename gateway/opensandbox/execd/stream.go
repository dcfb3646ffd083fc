package execd

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
)

// event is one event of a command or of code.
type event struct {
	Type      string         `json:"type"`
	Text      string         `json:"text,omitempty"`
	Results   map[string]any `json:"results,omitempty"`
	Error     *failure       `json:"error,omitempty"`
	Count     int            `json:"execution_count,omitempty"`
	Elapsed   int64          `json:"execution_time,omitempty"`
	Timestamp int64          `json:"timestamp"`
}

// failure is the error of a command or of code.
type failure struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// stream sends events until batches is closed. Events are JSON texts with an empty line after each,
// as execd sends them: its clients accept that with and without "data:". Errors: Canceled if the
// client disconnected.
func stream[E any](h handler, w http.ResponseWriter, r *http.Request, batches <-chan []E,
	translate func(E) []event,
) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	tick := time.NewTicker(h.cfg.KeepAlive)
	defer tick.Stop()
	for {
		var events []event
		select {
		case batch, ok := <-batches:
			if !ok {
				return nil
			}
			for _, e := range batch {
				events = append(events, translate(e)...)
			}
		case <-tick.C:
			events = []event{{Type: "ping", Text: "pong"}}
		case <-r.Context().Done():
			return surface.ErrGone()
		}
		if err := send(w, control, events...); err != nil {
			return surface.ErrGone()
		}
	}
}

// send writes events and flushes them.
func send(w http.ResponseWriter, control *http.ResponseController, events ...event) error {
	for _, e := range events {
		e.Timestamp = time.Now().UnixMilli()
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(text, "\n\n"...)); err != nil {
			return err
		}
	}
	return control.Flush()
}
