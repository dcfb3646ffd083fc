package librechat

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// answer is the body of the answer to a run.
type answer struct {
	Session       string      `json:"session_id"`
	Storage       string      `json:"storage_session_id"`
	Stdout        string      `json:"stdout"`
	Stderr        string      `json:"stderr"`
	Files         []resultRef `json:"files"`
	Code          *int        `json:"code"`
	Signal        *string     `json:"signal"`
	Message       *string     `json:"message"`
	Status        string      `json:"status"`
	WallTime      int64       `json:"wall_time"`
	Runtime       string      `json:"runtime_session_id,omitempty"`
	RuntimeStatus string      `json:"runtime_status,omitempty"`
	Deleted       []string    `json:"deleted_files,omitempty"`
	Delivery      *delivery   `json:"artifact_delivery,omitempty"`
}

// resultRef names a file of the answer.
type resultRef struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	Storage  string  `json:"storage_session_id"`
	Session  string  `json:"session_id"`
	Path     string  `json:"path"`
	Modified *fileID `json:"modified_from,omitempty"`
	Inherit  bool    `json:"inherited,omitempty"`
}

type fileID struct {
	ID      string `json:"id"`
	Storage string `json:"storage_session_id"`
}

// delivery reports files that were not stored.
type delivery struct {
	Code      string `json:"code"`
	Status    string `json:"status"`
	Attempted int    `json:"attempted"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
}

// exec runs a program. The status of the response is 200 however the program ends.
func (s *Surface) exec(w http.ResponseWriter, r *http.Request) error {
	u := userOf(r)
	q, err := s.readRun(r)
	if err != nil {
		return err
	}
	is, err := profile(r, q)
	w.Header().Set(headerProfile, is)
	if err != nil {
		return err
	}
	if err := s.rates.admit(u.Key, time.Now()); err != nil {
		s.cfg.Full()
		return err
	}
	inputs, err := s.resolve(r.Context(), u, q.Files)
	if err != nil {
		return err
	}
	a, err := s.run(r.Context(), u, q, inputs)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, a)
}

// run runs a program in its session and stores its files. If the sandbox of a conversation lacks the
// language, the conversation has another session, with a template that has it.
func (s *Surface) run(ctx context.Context, u store.User, q *request, inputs []input,
) (*answer, error) {
	a, missing, err := s.runIn(ctx, u, q, inputs, "")
	if missing == nil || q.Hint == "" || s.cfg.Template != "" {
		return a, err
	}
	template, err := s.templateWith(ctx, u, q.language.name, nil)
	if err != nil || template == "" {
		return a, err
	}
	a, _, err = s.runIn(ctx, u, q, inputs, template)
	return a, err
}

// runIn runs a program in a session with a template. The error missing says that the session does not
// have the language; the answer has a text for the model then.
func (s *Surface) runIn(ctx context.Context, u store.User, q *request, inputs []input,
	template string,
) (a *answer, missing, err error) {
	id := store.NewID()
	a = &answer{Session: id, Storage: id, Files: []resultRef{}, Status: statusError}
	at, err := s.place(ctx, u, q, template)
	if text := q.language.missing(q.Lang, err); text != "" {
		a.Stderr = text
		return a, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var g stage
	if at.runtime == "" {
		defer s.discard(u, at.session)
	} else {
		defer s.later(func() {
			if g.source != "" {
				s.removeSource(u, at.session, g.source)
			}
			at.turn.End(g.ended)
		})
		a.Runtime, a.RuntimeStatus = at.runtime, "new"
		if at.reused {
			a.RuntimeStatus = "reused"
		}
	}
	if g, err = s.prepare(ctx, u, at, q, inputs, true); err != nil {
		return nil, nil, err
	}
	o, err := s.runProgram(ctx, u, open(at.session, q, &g), q.timeout, g.cursor)
	if g.content != "" && fault.Is(err, fault.Conflict) { // a program has left a file with its name
		g.source = ""
		if err = g.writeCode(ctx, s, u, at.session, q); err != nil {
			return nil, nil, err
		}
		o, err = s.runProgram(ctx, u, open(at.session, q, &g), q.timeout, g.cursor)
	}
	if text := q.language.missing(q.Lang, err); text != "" {
		a.Stderr = text
		return a, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	a.ended(o)
	if o.lost {
		return a, nil, nil
	}
	return a, nil, s.collect(ctx, u, at, a, inputs, &g, o.changed)
}

// open returns the request that starts the program, whose code is in a file of the working folder, or
// an argument if the stage has no file.
func open(session string, q *request, g *stage) protocol.ChannelOpen {
	c := protocol.ChannelOpen{
		Session: session, Kind: "process", Cwd: folder, Env: q.language.environment(),
	}
	if g.source == "" {
		c.Argv = append(slices.Clone(q.language.inline), q.Code, folder+"/"+q.language.source)
		c.Argv = append(c.Argv, q.Args...)
		return c
	}
	if q.language.command != nil {
		c.Argv = append(append(slices.Clone(q.language.command), folder+"/"+g.source), q.Args...)
		return c
	}
	c.Language, c.File, c.Args = q.language.name, folder+"/"+g.source, q.Args
	c.Content = g.content
	return c
}

// ended sets the end of the program.
func (a *answer) ended(o outcome) {
	a.Stdout, a.Stderr, a.Status, a.Code = o.stdout, o.stderr, o.status, o.code
	a.WallTime = o.wall.Milliseconds()
	if o.signal != "" {
		a.Signal = &o.signal
	}
	if o.message != "" {
		a.Message = &o.message
	}
}

// removeSource removes the code from a session that stays.
func (s *Surface) removeSource(u store.User, session, source string) {
	err := s.call(s.cfg.Base, u, protocol.OpFileRemove, protocol.FileRemove{
		FileRef: protocol.FileRef{Session: session, Path: folder + "/" + source},
	}, nil)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.SandboxLost) {
		s.cfg.Log.Warn("the code of a run could not be removed", "session", session, "error", err)
	}
}
