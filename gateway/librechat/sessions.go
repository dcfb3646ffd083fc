package librechat

import (
	"context"
	"slices"
	"time"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/turn"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The surfaces of conversations: sessions that stay, sessions with files, and sessions of one run.
const (
	surfaceStays = "librechat"
	surfaceFiles = "librechat-files"
	surfaceRun   = "librechat-run"
)

// runSpare is how much longer than its program the session of a run lives if the gateway cannot
// delete it.
const runSpare = 10 * time.Minute

// policy is how sessions in which programs run are created.
func (s *Surface) policy() conversation.Policy {
	p := conversation.PolicyOf(s.cfg.Policy)
	p.Template, p.IdleDeleteSeconds = s.cfg.Template, int64(s.cfg.Retention/time.Second)
	return p
}

// fileSession returns the session with the files of a user; empty if there is none and create is
// false.
func (s *Surface) fileSession(ctx context.Context, u store.User, create bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	sessions := conversation.Sessions{Node: s.cfg.Node}
	p := conversation.Place{Surface: surfaceFiles, User: u.Key}
	if create {
		v, err := sessions.Ensure(ctx, u.Who, p, conversation.Policy{
			IdleDeleteSeconds: int64(s.cfg.Retention / time.Second),
		})
		return v.ID, err
	}
	v, err := sessions.Find(ctx, u.Who, p)
	if fault.Is(err, fault.NotFound) || err == nil && v.State == "lost" {
		return "", nil
	}
	return v.ID, err
}

// place is the session of a run.
type place struct {
	session string
	// runtime is the id of a session that stays for clients, and reused is true if it was there
	// before. Both are empty for a run with a session of its own.
	runtime string
	reused  bool
	// cursor is the position in the changes of the working folder at which the run before this one
	// has ended; empty if it is not known.
	cursor string
	// turn is the turn in a session that stays.
	turn *turn.Turn
}

// place returns the session of a run. A template that is not that of all runs has its own sessions.
// Errors: those of session.create.
func (s *Surface) place(ctx context.Context, u store.User, q *request, template string,
) (place, error) {
	if q.Hint != "" {
		policy, parts := s.policy(), []string{"runtime", u.Key, q.Hint}
		if template != "" {
			policy.Template, parts = template, append(parts, template)
		}
		return s.stays.place(ctx, u, digest(parts...), policy)
	}
	life := q.timeout + runSpare
	if s.cfg.MaxLifetime > 0 {
		life = min(life, s.cfg.MaxLifetime)
	}
	var v protocol.Session
	policy := s.policy()
	policy.Language, policy.IdleDeleteSeconds = q.language.name, 0
	create := policy.Create(map[string]string{
		conversation.LabelSurface: surfaceRun, conversation.LabelUser: u.Key,
	})
	create.LifetimeSeconds = int64(life / time.Second)
	err := s.call(ctx, u, protocol.OpSessionCreate, create, &v)
	if create.Template == "" && q.language.missing(q.Lang, err) != "" {
		if create.Template, err = s.templateWith(ctx, u, q.language.name, err); err == nil {
			err = s.call(ctx, u, protocol.OpSessionCreate, create, &v)
		}
	}
	return place{session: v.ID}, err
}

// templateWith returns the first template of the tenant that has a language. It returns the error
// missing if there is none.
func (s *Surface) templateWith(ctx context.Context, u store.User, language string, missing error,
) (string, error) {
	var list protocol.TemplateList
	if err := s.call(ctx, u, protocol.OpTemplateList, struct{}{}, &list); err != nil {
		return "", err
	}
	for _, t := range list.Templates {
		if t.State != "failed" && slices.Contains(t.Languages, language) {
			return t.Name, nil
		}
	}
	return "", missing
}

// discard deletes the session of a run, without waiting for it.
func (s *Surface) discard(u store.User, session string) {
	s.later(func() {
		err := s.call(s.cfg.Base, u, protocol.OpSessionDelete,
			protocol.SessionRef{Session: session}, nil)
		if err != nil && !fault.Is(err, fault.NotFound) {
			s.cfg.Log.Warn("the session of a run could not be deleted", "session", session,
				"error", err)
		}
	})
}

// later does work that the client does not wait for.
func (s *Surface) later(work func()) {
	if !s.cfg.Go(work) {
		work()
	}
}
