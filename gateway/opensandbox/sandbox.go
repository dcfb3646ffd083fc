package opensandbox

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The states of a sandbox.
const (
	stateRunning  = "Running"
	statePaused   = "Paused"
	stateResuming = "Resuming"
	stateFailed   = "Failed"
)

// Bounds.
const (
	// metadata begins the keys of labels that clients set.
	metadata = "meta."
	// templateURI begins the uri of an image that names a template of this server.
	templateURI = "template:"
	maxListed   = 1000
	maxPage     = 200
)

// creation is the body of a request that creates a sandbox.
type creation struct {
	Image struct {
		URI string `json:"uri"`
	} `json:"image"`
	Snapshot   string            `json:"snapshotId"`
	Entrypoint []string          `json:"entrypoint"`
	Timeout    *int64            `json:"timeout"`
	Env        map[string]string `json:"env"`
	Metadata   map[string]string `json:"metadata"`
	Network    *struct {
		Default string `json:"defaultAction"`
		Egress  []struct {
			Action string `json:"action"`
			Target string `json:"target"`
		} `json:"egress"`
	} `json:"networkPolicy"`
	Volumes []json.RawMessage `json:"volumes"`
}

type status struct {
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// sandboxBody describes a sandbox.
type sandboxBody struct {
	ID         string            `json:"id"`
	Status     status            `json:"status"`
	Metadata   map[string]string `json:"metadata"`
	Image      map[string]string `json:"image"`
	Entrypoint []string          `json:"entrypoint"`
	Created    time.Time         `json:"createdAt"`
	Expires    *time.Time        `json:"expiresAt"`
}

// decode reads the JSON body of a request. It ignores unknown fields.
func decode(r *http.Request, v any) error {
	err := json.NewDecoder(r.Body).Decode(v)
	if err == nil || errors.Is(err, io.EOF) || fault.Is(err, fault.TooLarge) {
		return err
	}
	return &fault.Error{
		Kind: fault.Malformed, Op: "opensandbox.decode",
		Message: "the body is not a JSON object of this request", Err: err,
	}
}

// describe returns a session as a sandbox.
func describe(v protocol.Session) sandboxBody {
	b := sandboxBody{
		ID: v.ID, Status: status{State: stateRunning}, Metadata: map[string]string{},
		Image: map[string]string{"uri": templateURI + v.Template}, Entrypoint: []string{},
		Created: time.UnixMilli(v.CreatedMS).UTC(),
	}
	for key, value := range v.Labels {
		if name, ok := strings.CutPrefix(key, metadata); ok {
			b.Metadata[name] = value
		}
	}
	if v.ExpiresMS > 0 {
		at := time.UnixMilli(v.ExpiresMS).UTC()
		b.Expires = &at
	}
	switch {
	case v.State == "lost":
		b.Status = status{State: stateFailed, Reason: v.Reason, Message: "the sandbox has ended"}
	case v.State == "resuming":
		b.Status.State = stateResuming
	case v.Suspended:
		b.Status.State = statePaused
	}
	return b
}

// network returns the hosts that a sandbox reaches: those that both the operator and the client
// allow; nil for none.
func (s *Surface) network(q *creation) *protocol.Network {
	operator := s.cfg.Settings.Network
	if len(operator) == 0 {
		return nil
	}
	if q.Network == nil || q.Network.Default == "allow" && len(q.Network.Egress) == 0 {
		return &protocol.Network{Allow: operator}
	}
	var allow []string
	for _, rule := range q.Network.Egress {
		if rule.Action == "allow" &&
			(slices.Contains(operator, rule.Target) || slices.Contains(operator, "*")) {
			allow = append(allow, rule.Target)
		}
	}
	if len(allow) == 0 {
		return nil
	}
	return &protocol.Network{Allow: allow}
}

// createSandbox creates a sandbox. It runs when the answer comes.
func (s *Surface) createSandbox(w http.ResponseWriter, r *http.Request) error {
	const op = "opensandbox.create"
	var q creation
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.Snapshot != "" || len(q.Volumes) > 0 {
		return fault.New(fault.Unsupported, op, "sandboxes of snapshots and with volumes are in the "+
			"native API of this server")
	}
	if err := s.checkNumber(r); err != nil {
		return err
	}
	labels := map[string]string{conversation.LabelSurface: surfaces.OpenSandbox}
	for key, value := range q.Metadata {
		labels[metadata+key] = value
	}
	c := conversation.PolicyOf(s.cfg.Settings).Create(labels)
	c.Env, c.Network = q.Env, s.network(&q)
	if name, ok := strings.CutPrefix(q.Image.URI, templateURI); ok && name != "" {
		c.Template = name
	}
	if q.Timeout != nil {
		if *q.Timeout < 1 {
			return fault.Invalid(op, "timeout", "it is in seconds, from 1")
		}
		c.LifetimeSeconds = *q.Timeout
	}
	var v protocol.Session
	if err := s.call(r, protocol.OpSessionCreate, c, &v); err != nil {
		return err
	}
	b := describe(v)
	b.Image["uri"] = q.Image.URI
	if q.Entrypoint != nil {
		b.Entrypoint = q.Entrypoint
	}
	return surface.WriteJSON(w, http.StatusAccepted, b)
}

// checkNumber counts the sandboxes of the tenant. Errors: Exhausted.
func (s *Surface) checkNumber(r *http.Request) error {
	most := s.cfg.Settings.MaxSessions
	if most == 0 {
		return nil
	}
	var list protocol.SessionList
	if err := s.call(r, protocol.OpSessionList, protocol.SessionQuery{
		Labels: []string{labelOwn}, Limit: most, Fields: "id",
	}, &list); err != nil || len(list.Sessions) < most {
		return err
	}
	return fault.New(fault.Exhausted, "opensandbox.create",
		"there are %d sandboxes, the most of surfaces.opensandbox.max_sessions", most)
}

const labelOwn = conversation.LabelSurface + ":" + surfaces.OpenSandbox

// find returns the session of the sandbox that the path names. Errors: NotFound.
func (s *Surface) find(r *http.Request) (v protocol.Session, err error) {
	id := r.PathValue("id")
	if !surface.ValidID(id) {
		return v, errMissing()
	}
	err = s.call(r, protocol.OpSessionGet, protocol.SessionRef{Session: id}, &v)
	if fault.Is(err, fault.NotFound) ||
		err == nil && v.Labels[conversation.LabelSurface] != surfaces.OpenSandbox {
		err = errMissing()
	}
	return v, err
}

func (s *Surface) get(w http.ResponseWriter, r *http.Request) error {
	v, err := s.find(r)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, describe(v))
}

// list answers with a page of the sandboxes of the tenant.
func (s *Surface) list(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	labels := []string{labelOwn}
	for pair := range strings.SplitSeq(query.Get("metadata"), "&") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			labels = append(labels, metadata+key+":"+value)
		}
	}
	page, size := atLeast(query.Get("page"), 1), min(atLeast(query.Get("pageSize"), 20), maxPage)
	all := []sandboxBody{}
	q := protocol.SessionQuery{Labels: labels, Limit: maxPage}
	for {
		var list protocol.SessionList
		if err := s.call(r, protocol.OpSessionList, q, &list); err != nil {
			return err
		}
		for _, v := range list.Sessions {
			b := describe(v)
			if states := query["state"]; len(states) == 0 || slices.Contains(states, b.Status.State) {
				all = append(all, b)
			}
		}
		if q.Cursor = list.NextCursor; q.Cursor == "" || len(all) >= maxListed {
			break
		}
	}
	from, total := min((page-1)*size, len(all)), len(all)
	items := all[from:min(from+size, total)]
	return surface.WriteJSON(w, http.StatusOK, map[string]any{
		"items": items,
		"pagination": map[string]any{
			"page": page, "pageSize": size, "totalItems": total,
			"totalPages": (total + size - 1) / size, "hasNextPage": from+size < total,
		},
	})
}

// atLeast returns a number from 1 to 100000 of a query; usual without one.
func atLeast(text string, usual int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 100_000 {
		return usual
	}
	return n
}

func (s *Surface) remove(w http.ResponseWriter, r *http.Request) error {
	return s.perform(w, r, http.StatusNoContent, protocol.OpSessionDelete,
		func(id string) any { return protocol.SessionRef{Session: id} })
}

func (s *Surface) pause(w http.ResponseWriter, r *http.Request) error {
	return s.perform(w, r, http.StatusAccepted, protocol.OpHibernate,
		func(id string) any { return protocol.SessionHibernate{Session: id, Suspend: true} })
}

func (s *Surface) resume(w http.ResponseWriter, r *http.Request) error {
	return s.perform(w, r, http.StatusAccepted, protocol.OpResume,
		func(id string) any { return protocol.SessionRef{Session: id} })
}

// perform performs an operation on the sandbox of a request, without a result.
func (s *Surface) perform(w http.ResponseWriter, r *http.Request, status int, op string,
	params func(id string) any,
) error {
	v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.call(r, op, params(v.ID), nil); err != nil {
		return err
	}
	w.WriteHeader(status)
	return nil
}

// patchMetadata sets metadata of a sandbox, and removes that whose value is null.
func (s *Surface) patchMetadata(w http.ResponseWriter, r *http.Request) error {
	var patch map[string]*string
	if err := decode(r, &patch); err != nil {
		return err
	}
	v, err := s.find(r)
	if err != nil {
		return err
	}
	labels := map[string]string{}
	for key, value := range v.Labels {
		if !strings.HasPrefix(key, protocol.ReservedLabels) {
			labels[key] = value
		}
	}
	for key, value := range patch {
		if value == nil {
			delete(labels, metadata+key)
		} else {
			labels[metadata+key] = *value
		}
	}
	var changed protocol.Session
	if err := s.call(r, protocol.OpSessionUpdate,
		protocol.SessionUpdate{Session: v.ID, Labels: &labels}, &changed); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, describe(changed))
}

// renew sets the time at which a sandbox ends.
func (s *Surface) renew(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Expires time.Time `json:"expiresAt"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	life := int64(time.Until(q.Expires) / time.Second)
	if life < 1 {
		return fault.Invalid("opensandbox.renew", "expiresAt", "it is in the future")
	}
	v, err := s.find(r)
	if err != nil {
		return err
	}
	var changed protocol.Session
	if err := s.call(r, protocol.OpSessionUpdate,
		protocol.SessionUpdate{Session: v.ID, LifetimeSeconds: &life}, &changed); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK,
		map[string]any{"expiresAt": describe(changed).Expires})
}

// endpoint answers with the address of a port of a sandbox, and with the token that it needs.
func (s *Surface) endpoint(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil || port < 1 || port > 65535 {
		return fault.Invalid("opensandbox.endpoint", "port", "it is a number from 1 to 65535")
	}
	v, err := s.find(r)
	if err != nil {
		return err
	}
	token, err := s.cfg.Auth.SandboxToken(purpose, v.ID)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{
		"endpoint": r.Host + Endpoint + v.ID + "/" + strconv.Itoa(port),
		"headers":  map[string]string{"X-EXECD-ACCESS-TOKEN": token},
	})
}
