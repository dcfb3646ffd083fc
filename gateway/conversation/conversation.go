// Package conversation finds the session of a conversation. Clients of chat applications and agents
// name no session: their requests say who the caller is, which user of the caller's application
// speaks, and in which conversation. Each of these has its own sessions, under names that are
// hashes. A name cannot be guessed or chosen by a client, so a conversation reaches its own sessions
// and no other.
package conversation

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The labels of the sessions of conversations. A label without a value is left out.
const (
	LabelSurface      = "surface"
	LabelUser         = "user"
	LabelConversation = "conversation"
	LabelSession      = "session"
	// LabelCaller is a hash of the caller and its user. Sessions have it if their number is bounded.
	LabelCaller = "caller"
)

// MaxText is the largest user, conversation or session name, in bytes.
const MaxText = protocol.MaxLabelValue

// Place names one session of a conversation.
type Place struct {
	// Surface is the name of the protocol: conversations of different protocols are different.
	Surface string
	// User is the user of the caller's application; empty if the caller has one user.
	User string
	// Conversation is the application's name for the conversation; empty if there is one.
	Conversation string
	// Session is a name within the conversation; empty for the default session.
	Session string
}

// Check rejects names that cannot be stored. Errors: InvalidArgument with the field.
func (p Place) Check() error {
	for _, f := range []struct{ field, text string }{
		{"user", p.User}, {"conversation", p.Conversation}, {"session", p.Session},
	} {
		if len(f.text) > MaxText {
			return fault.Invalid("conversation.check", f.field, "a name has at most %d bytes",
				MaxText)
		}
		if !utf8.ValidString(f.text) || strings.ContainsFunc(f.text,
			func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fault.Invalid("conversation.check", f.field,
				"a name is UTF-8 without control characters")
		}
	}
	return nil
}

// Name returns the name of the session for the caller who: the surface, a hyphen and 24 letters and
// digits.
func (p Place) Name(who noderpc.Principal) string {
	return p.Surface + "-" + digest(who.Tenant, who.Subject, p.Surface, p.User, p.Conversation,
		p.Session)
}

// digest returns 24 letters and digits that depend on all parts and their order.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:15]))
}

func (p Place) labels() map[string]string {
	labels := map[string]string{}
	for key, value := range map[string]string{
		LabelSurface: p.Surface, LabelUser: p.User, LabelConversation: p.Conversation,
		LabelSession: p.Session,
	} {
		if value != "" {
			labels[key] = kernelclient.Clip(value, protocol.MaxLabelValue)
		}
	}
	return labels
}

// labelsFor returns the labels of the place's session for the caller who.
func (p Place) labelsFor(who noderpc.Principal, policy Policy) map[string]string {
	labels := p.labels()
	if policy.MaxSessions > 0 {
		labels[LabelCaller] = digest(who.Tenant, who.Subject, p.Surface, p.User)
	}
	return labels
}

// Policy is how sessions of conversations are created.
type Policy struct {
	// Template is the template; empty means that of the language.
	Template string
	// Language is the language that is warm; empty means python.
	Language string
	// Network bounds the network access; nil means none.
	Network *protocol.Network
	// MemoryBytes is the memory; 0 means the server's default.
	MemoryBytes int64
	// Labels are labels in addition to those of this package.
	Labels map[string]string
	// MaxSessions is the most sessions of one user of the caller on one surface; 0 means no limit.
	// Sessions that are created at the same time may exceed it.
	MaxSessions int
	// IdleDeleteSeconds is how long a session may be without work before it is deleted; 0 means the
	// server's default.
	IdleDeleteSeconds int64
}

// Node performs operations.
type Node interface {
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Sessions finds sessions on a node. It has no state.
type Sessions struct{ Node Node }

// Ensure returns the session of a place, and creates it if there is none. The policy has no effect on
// a session that exists. A session whose sandbox was lost is replaced.
func (s Sessions) Ensure(ctx context.Context, who noderpc.Principal, p Place, policy Policy,
) (protocol.Ensured, error) {
	var out protocol.Ensured
	if err := p.Check(); err != nil {
		return out, err
	}
	create := policy.Create(p.labelsFor(who, policy))
	create.Name = p.Name(who)
	if policy.MaxSessions > 0 {
		_, err := s.Find(ctx, who, p)
		if fault.Is(err, fault.NotFound) {
			err = s.checkNumber(ctx, who, p, policy.MaxSessions)
		}
		if err != nil {
			return out, err
		}
	}
	err := s.Node.Call(ctx, who, protocol.OpSessionEnsure, create, &out)
	return out, err
}

// checkNumber checks that the caller's user may have one more session. 0 means no limit.
func (s Sessions) checkNumber(ctx context.Context, who noderpc.Principal, p Place, most int) error {
	if most == 0 {
		return nil
	}
	var list protocol.SessionList
	if err := s.Node.Call(ctx, who, protocol.OpSessionList, protocol.SessionQuery{
		Labels: []string{LabelCaller + ":" + digest(who.Tenant, who.Subject, p.Surface, p.User)},
		Limit:  most, Fields: "id",
	}, &list); err != nil {
		return err
	}
	if len(list.Sessions) < most {
		return nil
	}
	return fault.New(fault.Exhausted, "conversation.ensure", "there are %d sessions, the most that "+
		"a user of %s may have; close one, or raise surfaces.%s.max_sessions", most, p.Surface,
		p.Surface)
}

// Find returns the session of a place. Errors: NotFound if there is none.
func (s Sessions) Find(ctx context.Context, who noderpc.Principal, p Place,
) (protocol.Session, error) {
	var out protocol.Session
	if err := p.Check(); err != nil {
		return out, err
	}
	err := s.Node.Call(ctx, who, protocol.OpSessionFind, protocol.SessionName{Name: p.Name(who)},
		&out)
	return out, err
}
