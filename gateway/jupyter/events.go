package jupyter

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/gateway/jupyter/contents"
	"github.com/sandgate/sandgate/gateway/jupyter/events"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The schemas of events that Jupyter Server has itself.
const (
	ownSchemas     = "https://events.jupyter.org/jupyter_server/"
	schemaContents = ownSchemas + "contents_service/v1"
	schemaKernels  = ownSchemas + "kernel_actions/v1"
)

const (
	// maxEvent is the largest body of a posted event, in bytes.
	maxEvent = 16 << 10
	// maxSchema is the longest id of a schema, in bytes.
	maxSchema = 512
)

// subscribe serves the WebSocket of a client that gets events. It answers the handshake once the
// session is known to exist.
func (s eventAPI) subscribe(w http.ResponseWriter, r *http.Request) error {
	if err := checkUpgrade(r); err != nil {
		return err
	}
	p := placed(r)
	reader, err := s.reader(r)
	if err != nil {
		return err
	}
	leave, err := s.sockets.join(p.who, "\x00events")
	if err != nil {
		return err
	}
	sub := s.hub.Subscribe(reader)
	ws, err := accept(w, r, false)
	if err != nil {
		sub.Close()
		leave()
		return nil // the handshake is answered
	}
	t := s.newSocket(ws, p.who)
	serve := func() {
		defer leave()
		defer sub.Close()
		t.close(s.feed(t, sub))
	}
	if !s.cfg.Go(serve) {
		sub.Close()
		leave()
		t.close(fault.New(fault.Restarting, "jupyter.events", "the server restarts"))
	}
	return nil
}

// reader returns who subscribes. Errors: NotFound if there is no such session.
func (s eventAPI) reader(r *http.Request) (events.Reader, error) {
	p := placed(r)
	out := events.Reader{Tenant: p.who.Tenant, Subject: p.who.Subject, Session: p.session}
	if p.session != "" {
		return out, s.exists(r)
	}
	var err error
	out.Home, err = s.home(r)
	return out, err
}

// exists checks that the tenant has the session of the server.
func (s eventAPI) exists(r *http.Request) error {
	var v protocol.Session
	return s.call(r, protocol.OpSessionGet, protocol.SessionRef{Session: placed(r).session}, &v)
}

// feed sends events until the client leaves or reads too slowly.
func (s eventAPI) feed(t *socket, sub *events.Subscriber) error {
	go func() {
		for { // the client has nothing to say; its pings and its end are read here
			if _, _, err := t.Read(); err != nil {
				sub.End(err)
				return
			}
		}
	}()
	for {
		text, err := sub.Next()
		if err == nil {
			err = t.Write(text, false)
		}
		if fault.Is(err, fault.Slow) {
			s.cfg.Full()
			t.closeWith(websocket.StatusTryAgainLater, "too many events wait")
		}
		if err != nil {
			return err
		}
	}
}

// postedEvent is an event that a client sends.
type postedEvent struct {
	Schema    string          `json:"schema_id"`
	Version   json.RawMessage `json:"version"`
	Data      map[string]any  `json:"data"`
	Timestamp *string         `json:"timestamp"`
}

// post gives an event of a client to the subscribers of the same server.
func (s eventAPI) post(w http.ResponseWriter, r *http.Request) error {
	p := placed(r)
	if p.session != "" {
		if err := s.exists(r); err != nil {
			return err
		}
	}
	e, err := decodeEvent(r)
	if err != nil {
		return err
	}
	s.hub.Publish(p.who.Tenant, events.Event{
		Schema: e.Schema, Data: e.Data, Session: p.session, Only: &p.session,
	})
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func decodeEvent(r *http.Request) (postedEvent, error) {
	const op = "jupyter.event"
	var e postedEvent
	body, err := io.ReadAll(io.LimitReader(r.Body, maxEvent+1))
	if err != nil {
		return e, err
	}
	if len(body) > maxEvent {
		return e, fault.New(fault.TooLarge, op, "an event has at most %d bytes", maxEvent)
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, fault.New(fault.Malformed, op, "the body is not an event: an object with "+
			"schema_id, version and data")
	}
	id, err := url.Parse(e.Schema)
	switch {
	case err != nil || !id.IsAbs() || len(e.Schema) > maxSchema:
		return e, fault.Invalid(op, "schema_id", "the id of a schema is an absolute URI of at most "+
			"%d bytes", maxSchema)
	case strings.HasPrefix(e.Schema, ownSchemas):
		return e, fault.Invalid(op, "schema_id", "only the server makes events of this schema")
	case !isVersion(e.Version):
		return e, fault.Invalid(op, "version", "the version is missing: it is text or a number")
	case e.Data == nil:
		return e, fault.Invalid(op, "data", "the data is missing: it is an object")
	case e.Data["schema_id"] != nil:
		return e, fault.Invalid(op, "data", "the data cannot have the field schema_id")
	case e.Timestamp != nil && !isTimestamp(*e.Timestamp):
		return e, fault.Invalid(op, "timestamp",
			"a timestamp has the form 2022-05-26T13:50:00+05:00Z")
	}
	return e, nil
}

func isVersion(v json.RawMessage) bool {
	var text string
	var number json.Number
	return !bytes.Equal(v, []byte("null")) &&
		(json.Unmarshal(v, &text) == nil && text != "" || json.Unmarshal(v, &number) == nil)
}

// isTimestamp accepts the form of Jupyter Server, which has an offset and a Z, and RFC 3339.
func isTimestamp(v string) bool {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05-07:00Z"} {
		if _, err := time.Parse(form, v); err == nil {
			return true
		}
	}
	return false
}

// kernelEvent publishes that a request has done something with a kernel, or could not do it. Without
// an id the kernel has not started.
func (s *Surface) kernelEvent(r *http.Request, action, session, id, name string, err error) {
	past := map[string]string{
		"start": "started", "shutdown": "shut down", "restart": "restarted",
		"interrupt": "interrupted",
	}
	data := map[string]any{
		"action": action, "kernel_name": name, "status": "success",
		"msg": "Kernel " + id + " was " + past[action] + ".",
	}
	if id != "" {
		data["kernel_id"] = id
	}
	if err != nil {
		public := surface.PublicOf(err)
		data["status"], data["msg"] = "error", public.Message
		data["status_code"] = statusOf(public.Kind)
	}
	s.hub.Publish(placed(r).who.Tenant, events.Event{
		Schema: schemaKernels, Data: data, Session: session,
	})
}

func (s *Surface) eventOf(r *http.Request, action string, k *kernel, err error) {
	s.kernelEvent(r, action, k.session, k.id(), specName(k.channel.Language), err)
}

// fileEvent publishes what a request has done with a file. Both paths are those of the session.
func (s contentsAPI) fileEvent(r *http.Request, a *area, action, path, source string) {
	p := placed(r)
	path = strings.Trim(path, "/")
	e := events.Event{
		Schema: schemaContents, Data: map[string]any{"action": action}, Path: &path,
		Session: a.Session,
	}
	if source != "" {
		source = strings.Trim(source, "/")
		e.Source = &source
	}
	if p.session == "" && a.Prefix == "" {
		e.Home = &p.who.Subject
	}
	s.hub.Publish(p.who.Tenant, e)
}

// inner returns the path of a model in its session.
func (a *area) inner(m contents.Model) string { return strings.TrimPrefix(m.Path, a.Prefix) }
