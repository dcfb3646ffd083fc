package control

import (
	"math"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/protocol"
)

const (
	// clientID is the value of a field that clients require and do not use.
	clientID = "sandgate"
	// envdVersion is the version of the sandbox interface, by which clients choose what they use.
	envdVersion = "0.5.7"
)

// The states of a sandbox.
const (
	stateRunning = "running"
	statePaused  = "paused"
)

// sandboxBody is the result of create, connect and resume.
type sandboxBody struct {
	ID          string  `json:"sandboxID"`
	Template    string  `json:"templateID"`
	Alias       string  `json:"alias,omitempty"`
	Client      string  `json:"clientID"`
	EnvdVersion string  `json:"envdVersion"`
	Domain      *string `json:"domain"`
	tokens
}

// tokens are the tokens with which clients reach a sandbox.
type tokens struct {
	Envd    string `json:"envdAccessToken,omitempty"`
	Traffic string `json:"trafficAccessToken,omitempty"`
}

// listedBody is an element of a list of sandboxes.
type listedBody struct {
	ID          string            `json:"sandboxID"`
	Template    string            `json:"templateID"`
	Alias       string            `json:"alias,omitempty"`
	Client      string            `json:"clientID"`
	Started     string            `json:"startedAt"`
	End         string            `json:"endAt"`
	CPUs        int               `json:"cpuCount"`
	MemoryMB    int64             `json:"memoryMB"`
	DiskMB      int64             `json:"diskSizeMB"`
	Metadata    map[string]string `json:"metadata"`
	State       string            `json:"state"`
	EnvdVersion string            `json:"envdVersion"`
	Volumes     []volumeMount     `json:"volumeMounts"`
}

// detailBody is the result of get.
type detailBody struct {
	listedBody
	tokens
	Domain    *string      `json:"domain"`
	Internet  bool         `json:"allowInternetAccess"`
	Network   networkBody  `json:"network"`
	Lifecycle lifecycleOut `json:"lifecycle"`
}

// lifecycleOut describes what happens at the end of a sandbox's time.
type lifecycleOut struct {
	AutoResume bool   `json:"autoResume"`
	OnTimeout  string `json:"onTimeout"`
}

// networkBody is the part of a network configuration that a response has.
type networkBody struct {
	AllowOut []string `json:"allowOut,omitempty"`
	DenyOut  []string `json:"denyOut,omitempty"`
	Public   bool     `json:"allowPublicTraffic"`
}

// volumeMount says where a sandbox has a volume.
type volumeMount struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// withTokens returns a session with its tokens.
func (s *Plane) withTokens(v protocol.Session) (b sandboxBody, err error) {
	template := templateOf(v)
	b = sandboxBody{
		ID: e2bname.ID(v.ID), Template: template, Alias: template, Client: clientID,
		EnvdVersion: envdVersion, Domain: s.domain(),
	}
	b.tokens, err = s.tokens(v.ID)
	return b, err
}

// tokens returns the tokens with which clients reach a sandbox.
func (s *Plane) tokens(session string) (t tokens, err error) {
	if t.Envd, err = s.cfg.Tokens(auth.SandboxAccess, session); err != nil {
		return t, err
	}
	t.Traffic, err = s.cfg.Tokens(auth.SandboxTraffic, session)
	return t, err
}

// answer answers with a session and its tokens.
func (s *Plane) answer(w http.ResponseWriter, status int, v protocol.Session) error {
	b, err := s.withTokens(v)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, status, b)
}

// domain returns the domain of sandboxes, or null.
func (s *Plane) domain() *string {
	if s.cfg.Domain == "" {
		return nil
	}
	return &s.cfg.Domain
}

// detail returns a session with its tokens, if the caller may use them.
func (s *Plane) detail(r *http.Request, v protocol.Session) (d detailBody, err error) {
	o := optionsOf(v)
	d = detailBody{
		listedBody: listed(v), Domain: s.domain(), Internet: v.Network != nil && !v.Network.Off,
		Network:   networkOf(v.Network),
		Lifecycle: lifecycleOf(o),
	}
	d.Network.Public = !o.PrivatePorts
	if auth.Allows(surface.CallOf(r).Who, protocol.ScopeWrite) {
		d.tokens, err = s.tokens(v.ID)
	}
	return d, err
}

// listed returns a session as an element of a list.
func listed(v protocol.Session) listedBody {
	template := templateOf(v)
	l := listedBody{
		ID: e2bname.ID(v.ID), Template: template, Alias: template, Client: clientID,
		Started: stamp(v.CreatedMS), End: endOf(v), CPUs: 1,
		Metadata: e2bname.MetadataOf(v.Labels), State: stateOf(v), EnvdVersion: envdVersion,
		Volumes: []volumeMount{},
	}
	if m := v.Limits; m != nil {
		l.CPUs = max(1, int(math.Ceil(m.CPUs)))
		l.MemoryMB, l.DiskMB = m.MemoryBytes>>20, m.DiskBytes>>20
	}
	for _, m := range v.Volumes {
		path := m.Path
		if path == "" {
			path = "/volumes/" + m.Name
		}
		l.Volumes = append(l.Volumes, volumeMount{m.Name, path})
	}
	return l
}

// endOf returns when a sandbox ends. The field is required, so a sandbox that does not end has a
// time that is far away, and a paused one the time of its last work.
func endOf(v protocol.Session) string {
	switch {
	case v.ExpiresMS > 0:
		return stamp(v.ExpiresMS)
	case stateOf(v) == statePaused:
		return stamp(v.ActiveMS)
	}
	return "2999-12-31T00:00:00Z"
}

// stamp returns a time as RFC 3339, in milliseconds.
func stamp(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// optionsOf returns the options with which a sandbox was created.
func optionsOf(v protocol.Session) e2bname.Options {
	o, _ := e2bname.OptionsOf(v.Labels) // only the server writes them
	return o
}

// stateOf returns the state of a sandbox. A sandbox that was frozen or hibernated because it was
// idle counts as running: the next request continues it. A sandbox that every request resumes is
// not suspended by a pause, and so counts as paused while it is hibernated.
func stateOf(v protocol.Session) string {
	if v.Suspended || v.State == "hibernated" && optionsOf(v).AutoResume {
		return statePaused
	}
	return stateRunning
}

// lifecycleOf describes what happens at the end of a sandbox's time.
func lifecycleOf(o e2bname.Options) lifecycleOut {
	if o.AutoPause {
		return lifecycleOut{AutoResume: o.AutoResume, OnTimeout: "pause"}
	}
	return lifecycleOut{OnTimeout: "kill"}
}
