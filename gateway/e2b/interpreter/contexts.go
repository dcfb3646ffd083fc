package interpreter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// keyPrefix begins the keys of kernels that are contexts.
const keyPrefix = "e2b-context-"

// codeContext is a context as clients see it.
type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Cwd      string `json:"cwd"`
}

// contextOf returns the context of a kernel.
func contextOf(c protocol.Channel) codeContext {
	made := codeContext{ID: c.ID, Language: shown(c.Language), Cwd: c.Cwd}
	if !c.Separate {
		made.ID = made.Language
	}
	if made.Cwd == "" {
		made.Cwd = home
	}
	return made
}

// decode reads the JSON object of a body. An empty body is an empty object. It ignores fields that v
// does not have, because later clients send more.
func decode(r *http.Request, v any) error {
	const op = "interpreter.decode"
	err := json.NewDecoder(r.Body).Decode(v)
	switch {
	case err == nil || err == io.EOF:
		_, err = io.Copy(io.Discard, r.Body) // the server notices a disconnect after the body's end
		if err == nil {
			return nil
		}
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.New(fault.TooLarge, op, "a body has at most %d bytes", large.Limit)
	}
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fault.Invalid(op, wrong.Field, "this value must not be a JSON %s", wrong.Value)
	}
	return &fault.Error{
		Kind: fault.Malformed, Op: op, Message: "the body is not a JSON object", Err: err,
	}
}

// callNode performs one operation in the session of a request.
func (s *server) callNode(ctx context.Context, t *sandbox.Target, op string,
	params, result any,
) error {
	link, err := s.cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }() // there is nothing left to lose
	defer context.AfterFunc(ctx, func() { _ = link.Close() })()
	err = nodecall.Call(link, 1, op, 0, params, result, nil)
	if err != nil && ctx.Err() != nil {
		return fault.New(fault.KindOf(ctx.Err()), op, "the node did not answer in time")
	}
	return err
}

// createContext makes a context: a separate kernel. It starts with the first execution.
func (s *server) createContext(w http.ResponseWriter, r *http.Request) error {
	var p struct{ Language, Cwd string }
	if err := decode(r, &p); err != nil {
		return err
	}
	id := ofLanguage(p.Language)
	open := protocol.ChannelOpen{
		Session: sandbox.TargetOf(r.Context()).Session, Kind: "kernel",
		Key: keyPrefix + rand.Text(), Language: id.language,
	}
	ctx, cancel := s.bounded(r.Context())
	defer cancel()
	if p.Cwd != "" && p.Cwd != home {
		if err := s.checkFolder(ctx, p.Cwd); err != nil {
			return err
		}
		open.Cwd = p.Cwd
	}
	var c protocol.Channel
	err := s.callNode(ctx, sandbox.TargetOf(ctx), protocol.OpChannelOpen, open, &c)
	if err != nil {
		return known(id, err)
	}
	made := contextOf(c)
	made.Language = id.name
	return surface.WriteJSON(w, http.StatusOK, made)
}

// checkFolder checks the folder of a context: a kernel starts with its first execution, which would
// be late to report that there is no such folder. Errors: InvalidArgument.
func (s *server) checkFolder(ctx context.Context, path string) error {
	const op = "interpreter.folder"
	if err := surface.CheckPath(op, path); err != nil {
		return err
	}
	t := sandbox.TargetOf(ctx)
	var f protocol.File
	err := s.callNode(ctx, t, protocol.OpFileStat,
		protocol.FileRef{Session: t.Session, Path: path}, &f)
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.NotFound && e.Field == "path" {
		return fault.Invalid(op, "cwd", "there is no such folder")
	}
	if err == nil && !f.Dir {
		return fault.Invalid(op, "cwd", "this is not a folder")
	}
	return err
}

// listContexts lists the contexts: the default ones, then the others, the newest last.
func (s *server) listContexts(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(r.Context())
	defer cancel()
	kernels, err := s.kernels(ctx)
	if err != nil {
		return err
	}
	all := []codeContext{
		{ID: python, Language: python, Cwd: home},
		{ID: javascript, Language: javascript, Cwd: home},
	}
	for _, k := range kernels {
		c := contextOf(k)
		if !slices.ContainsFunc(all, func(o codeContext) bool { return o.ID == c.ID }) {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b codeContext) int {
		return rank(a) - rank(b)
	})
	return surface.WriteJSON(w, http.StatusOK, all)
}

// rank is 0 for a default context and 1 for another one.
func rank(c codeContext) int {
	if c.ID == c.Language {
		return 0
	}
	return 1
}

// kernels returns the kernels of a request's session, the oldest first.
func (s *server) kernels(ctx context.Context) ([]protocol.Channel, error) {
	t := sandbox.TargetOf(ctx)
	var all protocol.ChannelList
	err := s.callNode(ctx, t, protocol.OpChannelList, protocol.SessionRef{Session: t.Session}, &all)
	return slices.DeleteFunc(all.Channels, func(c protocol.Channel) bool {
		return c.Kind != "kernel" || c.State == "exited"
	}), err
}

// find returns the kernel of a context; false if it is a default one that does not exist. Errors:
// one with the status 404.
func (s *server) find(ctx context.Context, name string) (protocol.Channel, bool, error) {
	id, err := ofContext(name)
	if err != nil {
		return protocol.Channel{}, false, err
	}
	kernels, err := s.kernels(ctx)
	if err != nil {
		return protocol.Channel{}, false, err
	}
	for _, k := range kernels {
		if k.ID == id.channel || !k.Separate && k.Language == id.language {
			return k, true, nil
		}
	}
	if id.channel != "" || id.other {
		return protocol.Channel{}, false, noContext(name)
	}
	return protocol.Channel{}, false, nil
}

// restartContext gives a context a new process. Its variables are lost.
func (s *server) restartContext(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(r.Context())
	defer cancel()
	k, found, err := s.find(ctx, r.PathValue("id"))
	if err != nil {
		return err
	}
	if found {
		id := kernelID{name: k.ID, channel: k.ID}
		c, err := s.attach(ctx, sandbox.TargetOf(ctx), id)
		if err != nil {
			return err
		}
		defer c.Close()
		defer context.AfterFunc(ctx, c.Close)()
		if err := c.Request(protocol.OpRestart, struct{}{}, nil); err != nil {
			return err
		}
	}
	return surface.WriteJSON(w, http.StatusOK, nil)
}

// removeContext ends a context. A default one starts again with the next execution.
func (s *server) removeContext(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(r.Context())
	defer cancel()
	k, found, err := s.find(ctx, r.PathValue("id"))
	if err != nil {
		return err
	}
	if found {
		t := sandbox.TargetOf(ctx)
		err := s.callNode(ctx, t, protocol.OpChannelClose,
			protocol.ChannelRef{Session: t.Session, Channel: k.ID}, nil)
		if err != nil {
			return known(kernelID{name: k.ID, channel: k.ID}, err)
		}
	}
	return surface.WriteJSON(w, http.StatusOK, nil)
}
