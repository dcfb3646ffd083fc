// Package snapshot defines the form of saved sessions: their records, the folders
// of copies, and the archives that move between nodes. It also keeps the snapshots
// that users take. It knows no live session.
package snapshot

import (
	"encoding/json"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/message"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// Version is the version of the records. Records of other versions are not read.
const Version = 2

// Spec has the properties of a session that do not change.
type Spec struct {
	ID       string            `json:"id"`
	Tenant   string            `json:"tenant"`
	Subject  string            `json:"subject"`
	Template string            `json:"template,omitempty"`
	Layout   warm.Layout       `json:"layout"`
	Limits   protocol.Limits   `json:"limits"`
	Language string            `json:"language"`
	Env      map[string]string `json:"env,omitempty"`
	Created  time.Time         `json:"created"`
	// Info describes the kernel that was warm when the sandbox was claimed.
	Info message.Info `json:"info"`
	// Origin is the session or snapshot from which this session was copied.
	Origin  string           `json:"origin,omitempty"`
	Durable bool             `json:"durable,omitempty"`
	Volumes []protocol.Mount `json:"volumes,omitempty"`
}

// Holder returns the tenant and the subject whose quotas count the session.
func (s Spec) Holder() admission.Holder {
	return admission.Holder{Tenant: s.Tenant, Subject: s.Subject}
}

// Status has the stored properties of a session that change.
type Status struct {
	Policy Policy `json:"policy"`
	Name   string `json:"name,omitempty"`
	// Labels are replaced as a whole.
	Labels map[string]string `json:"labels,omitempty"`
	// Expires is when the session is deleted at the latest; cluster.NoEnd for never. It is the end
	// of the lifetime unless Policy.OnExpiry says otherwise.
	Expires time.Time `json:"expires"`
	// Due is the end of the lifetime of a session that is hibernated or suspended then. It is zero
	// without a lifetime, and from that moment until the next resume.
	Due    time.Time `json:"due,omitzero"`
	Active time.Time `json:"active"`
	// Suspended is set if only an explicit request resumes the session.
	Suspended bool `json:"suspended,omitempty"`
	// Works is set if the session was at work when its process ended.
	Works bool `json:"works,omitempty"`
	// Numbers is the last number used in a channel's id.
	Numbers int `json:"numbers"`
	// Recovered is the moment that the copy shows from which the session was
	// recovered after the server was killed. Stale is set if the machine has run from
	// this state before: it needs new randomness when it resumes.
	Recovered time.Time `json:"recovered,omitzero"`
	Stale     bool      `json:"stale,omitempty"`
	// Services are the declared services.
	Services []Service `json:"services,omitempty"`
	// Token is the fencing token of the session's ownership when it was saved.
	Token cluster.Token `json:"token,omitempty"`
}

// Policy decides when an idle session is paused and hibernated.
type Policy struct {
	// Pause and Hibernate are times since the last work; a negative time means never.
	Pause     time.Duration `json:"pause"`
	Hibernate time.Duration `json:"hibernate"`
	// Delete is the time without work after which the session is deleted; 0 means never.
	Delete time.Duration `json:"delete,omitempty"`
	// KeepAlive means that a session is never idle.
	KeepAlive bool `json:"keep_alive,omitempty"`
	// OnExpiry is protocol.OnExpiryHibernate, protocol.OnExpirySuspend, or empty for a session that
	// is deleted at the end of its lifetime.
	OnExpiry string `json:"on_expiry,omitempty"`
	// Lifetime is the lifetime that was set last; 0 for none.
	Lifetime time.Duration `json:"lifetime,omitempty"`
}

// SetView sets the idle times in the view of a session.
func (p Policy) SetView(v *protocol.Session) {
	v.IdlePauseSeconds, v.IdleHibernateSeconds = seconds(p.Pause), seconds(p.Hibernate)
	v.IdleDeleteSeconds, v.KeepAlive = seconds(p.Delete), p.KeepAlive
}

// seconds returns a policy's time as clients see it.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return protocol.Never
	}
	return max(1, int64(d/time.Second))
}

// Record is a hibernated session without its memory and its logs. It is the file session.json,
// which exists from the end of one process to the first resume in the next. It holds the session's
// environment, its input and its requests.
type Record struct {
	Version int `json:"version"`
	Spec
	Status
	Channels []Channel         `json:"channels"`
	Keys     map[string]string `json:"keys,omitempty"`
	Wires    map[uint32]string `json:"wires"` // the channel of each number
	NextWire uint32            `json:"next_wire"`
	Agent    client.Saved      `json:"agent"`
	// Network has the hosts that the session may reach, and Moved counts the bytes
	// that it has moved.
	Network *protocol.Network `json:"network,omitempty"`
	Moved   int64             `json:"moved,omitempty"`
}

// Channel is the record of a channel.
type Channel struct {
	ID       string            `json:"id"`
	Kind     string            `json:"kind"`
	Language string            `json:"language,omitempty"`
	Argv     []string          `json:"argv,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	Tag      string            `json:"tag,omitempty"`
	PID      int               `json:"pid,omitempty"`
	Wire     uint32            `json:"wire,omitempty"` // for a kernel, the number of its driver
	// InputEnded is true for a process without input.
	InputEnded bool           `json:"input_ended,omitempty"`
	Exit       *protocol.Exit `json:"exit,omitempty"`
	// Note is an event that the restored channel appends to its log, before its exit.
	Note json.RawMessage `json:"note,omitempty"`
	// Kept is a file of the session with the variables of an earlier kernel. The next one restores
	// them.
	Kept     string          `json:"kept,omitempty"`
	Log      stream.Saved    `json:"log"`
	Queue    *queue.Saved    `json:"queue,omitempty"`
	Terminal *Terminal       `json:"terminal,omitempty"`
	Service  *ServiceChannel `json:"service,omitempty"`
	Writers  []Writer        `json:"writers,omitempty"`
}

// Service is the record of a declared service.
type Service struct {
	protocol.Service
	State string `json:"state"`
	// Restarts counts its starts after the first one, and Failures those in a row that failed.
	Restarts int            `json:"restarts,omitempty"`
	Failures int            `json:"failures,omitempty"`
	Exit     *protocol.Exit `json:"exit,omitempty"`
	Message  string         `json:"message,omitempty"`
	// Due is when the service is started again.
	Due time.Time `json:"due,omitzero"`
}

// ServiceChannel is the part of a channel's record that only the channel of a service has.
type ServiceChannel struct {
	Name string `json:"name"`
	// From is the offset of the log at which the output of the last start begins.
	From int64 `json:"from"`
}

// Terminal is the record of a terminal.
type Terminal struct {
	Shell  bool      `json:"shell"`
	Driven bool      `json:"driven"`
	Screen pty.State `json:"screen"`
	Marks  []Mark    `json:"marks"`
	Since  int       `json:"since"`
}

// Mark is the state of a terminal at an offset of its log.
type Mark struct {
	Offset int64     `json:"offset"`
	State  pty.State `json:"state"`
}

// Writer is the record of a client that writes to a channel.
type Writer struct {
	Name  string          `json:"name"`
	Taken uint64          `json:"taken"`
	Guard pty.PasteFilter `json:"guard"`
}

// Detach changes the record of a session into the record with which a copy begins.
func (v *Record) Detach(passed time.Duration) {
	for i := range v.Channels {
		c := &v.Channels[i]
		if c.Queue != nil {
			q := c.Queue.ForClone(owed(v.Agent, c.Wire), passed)
			c.Queue = &q
		}
	}
}

func owed(a client.Saved, wire uint32) bool { return a.Flows[wire].Asked != 0 }
