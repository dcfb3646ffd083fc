package azure

import (
	"context"
	"net/http"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// folder is the working folder of programs, and the folder of files.
const folder = "/mnt/data"

// newShape is the first version with the routes and bodies of today.
const newShape = "2024-10-02-preview"

// target names a session: the path and the query of a request have it.
type target struct {
	who   noderpc.Principal
	place conversation.Place
	// language is the language of the pool: python, or javascript for a pool with one of its names.
	language string
	// before is true for a version before newShape.
	before bool
}

// targetOf reads the path and the query of a request. Errors: InvalidArgument.
func (s *Surface) targetOf(r *http.Request) (target, error) {
	const op = "azure.target"
	q := r.URL.Query()
	t := target{
		who: surface.CallOf(r).Who, place: conversation.PlaceOf(r, surfaces.Azure, s.cfg.Settings),
		language: "python",
	}
	version := q.Get("api-version")
	t.before = version < newShape
	t.place.Conversation, t.place.Session = q.Get("identifier"), r.PathValue("pool")
	switch t.place.Session {
	case "javascript", "node", "nodejs":
		t.language = "javascript"
	}
	switch {
	case version == "":
		return t, fault.Invalid(op, "api-version", "a version is required")
	case t.place.Conversation == "":
		return t, fault.Invalid(op, "identifier", "an identifier is required")
	}
	return t, t.place.Check()
}

// ensure returns the session of a target, and creates it if there is none.
func (s *Surface) ensure(ctx context.Context, t target) (string, error) {
	sessions := conversation.Sessions{Node: s.cfg.Node}
	policy := conversation.PolicyOf(s.cfg.Settings)
	policy.Language = t.language
	call, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	v, err := sessions.Ensure(call, t.who, t.place, policy)
	if err != nil || !v.Created {
		return v.ID, err
	}
	// Programs begin in the folder of the files.
	begin := "import os; os.chdir('" + folder + "'); del os"
	if t.language == "javascript" {
		begin = "process.chdir('" + folder + "')"
	}
	_, err = s.cfg.Cells.Cell(ctx, run.Spec{
		Who: runnerOf(t.who), NoFiles: true, Request: protocol.RunRequest{
			Session: v.ID, Code: begin, Language: t.language, MaxOutputBytes: 1 << 10,
			TimeoutMS: s.cfg.Call.Milliseconds(),
		},
	})
	return v.ID, err
}

// find returns the session of a target. Errors: NotFound if there is none.
func (s *Surface) find(ctx context.Context, t target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	v, err := conversation.Sessions{Node: s.cfg.Node}.Find(ctx, t.who, t.place)
	return v.ID, err
}

// runnerOf returns the principal with exactly the rights to run code.
func runnerOf(who noderpc.Principal) noderpc.Principal {
	who.Scopes = []string{string(protocol.ScopeRun)}
	return who
}

// deleteSession ends a session. It is no error if there is none.
func (s *Surface) deleteSession(w http.ResponseWriter, r *http.Request) error {
	t, err := s.targetOf(r)
	if err != nil {
		return err
	}
	id, err := s.find(r.Context(), t)
	if err == nil {
		err = s.call(r.Context(), t, protocol.OpSessionDelete, protocol.SessionRef{Session: id},
			nil)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// call performs one operation for the caller of a target.
func (s *Surface) call(ctx context.Context, t target, op string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	return s.cfg.Node.Call(ctx, t.who, op, params, result)
}
