package jupyter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/gateway/jupyter/contents"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// labelServer marks the sessions of the server-wide server. Its value is kernel for a session that
// ends with its last kernel, home for the home session of a user, and joined for a session in which
// the server has started a kernel.
const (
	labelServer   = "jupyter"
	ownKernel     = "kernel"
	homeFiles     = "home"
	joinedSession = "joined"
)

// maxSessions is the largest number of sessions that a list covers.
const maxSessions = 10_000

// kernel is a kernel of a session.
type kernel struct {
	session  string
	channel  protocol.Channel
	activeMS int64
	reason   string // why the session has ended; empty if it has not
	labels   map[string]string
}

// kernelBody is a kernel as clients see it.
type kernelBody struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	LastActivity string `json:"last_activity"`
	State        string `json:"execution_state"`
	Connections  int    `json:"connections"`
	Reason       string `json:"reason,omitempty"`
}

// kernelID returns the id of a kernel: the session's id in five groups, and the channel.
func kernelID(session, channel string) string {
	id := strings.TrimPrefix(session, sessionPrefix)
	if len(id) < 21 {
		id = strings.Repeat("0", 21-len(id)) + "_" + id
	}
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:] + "_" + channel
}

const sessionPrefix = "s_"

// parseID returns the session and the rest of an id that kernelID has made.
func parseID(id string) (session, rest string, ok bool) {
	at := strings.LastIndexByte(id, '_')
	if at < 0 || len(id) > 128 || !surface.ValidID(id) {
		return "", "", false
	}
	session, rest = strings.ReplaceAll(id[:at], "-", ""), id[at+1:]
	if _, short, ok := strings.Cut(session, "_"); ok {
		session = short
	}
	if session == "" || rest == "" {
		return "", "", false
	}
	return sessionPrefix + session, rest, true
}

func (k *kernel) id() string { return kernelID(k.session, k.channel.ID) }

// body returns the kernel as clients see it. A kernel that has died starts with the next cell, so
// that it is idle unless its session has ended.
func (s *Surface) body(k *kernel) kernelBody {
	b := kernelBody{
		ID: k.id(), Name: specName(k.channel.Language), LastActivity: stampMS(k.activeMS),
		State: "idle", Connections: s.sockets.count(k.id()),
	}
	switch {
	case k.reason != "":
		b.State, b.Reason = "dead", k.reason
	case k.channel.State == "busy" || k.channel.State == "starting":
		b.State = k.channel.State
	}
	return b
}

// kernelsOf returns the kernels of a session.
func kernelsOf(v protocol.Session) []kernel {
	var all []kernel
	for _, c := range v.Channels {
		if c.Kind != "kernel" || c.State == "exited" {
			continue
		}
		k := kernel{session: v.ID, channel: c, activeMS: v.ActiveMS, labels: v.Labels}
		if v.State == "lost" {
			k.reason = v.Reason
			if k.reason == "" {
				k.reason = "lost"
			}
		}
		all = append(all, k)
	}
	return all
}

// sessions returns the sessions whose kernels and files a server has. A list is complete, or an
// error: a client takes a kernel that is missing from a list for dead.
func (s *Surface) sessions(r *http.Request) ([]protocol.Session, error) {
	p := placed(r)
	if p.session != "" {
		var v protocol.Session
		err := s.call(r, protocol.OpSessionGet, protocol.SessionRef{Session: p.session}, &v)
		return []protocol.Session{v}, err
	}
	q := protocol.SessionQuery{
		Labels: []string{labelServer}, Limit: protocol.MaxList,
		Fields: "id,state,reason,active_ms,labels,channels,name",
	}
	all := []protocol.Session{}
	for len(all) < maxSessions {
		var page protocol.SessionList
		if err := s.call(r, protocol.OpSessionList, q, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Sessions...)
		if page.NextCursor == "" {
			return all, nil
		}
		q.Cursor = page.NextCursor
	}
	return nil, fault.New(fault.Unavailable, "jupyter.list", "there are over %d sessions", maxSessions)
}

// kernels returns the kernels of a server.
func (s *Surface) kernels(r *http.Request) ([]kernel, error) {
	sessions, err := s.sessions(r)
	if err != nil {
		return nil, err
	}
	all := []kernel{}
	for _, v := range sessions {
		all = append(all, kernelsOf(v)...)
	}
	return all, nil
}

// find returns the kernel with an id. Errors: NotFound.
func (s *Surface) find(r *http.Request, id string) (*kernel, error) {
	session, channel, ok := parseID(id)
	if p := placed(r); !ok || p.session != "" && p.session != session {
		return nil, noKernel()
	}
	var v protocol.Session
	err := s.call(r, protocol.OpSessionGet, protocol.SessionRef{Session: session}, &v)
	if fault.Is(err, fault.NotFound) {
		return nil, noKernel()
	}
	if err != nil {
		return nil, err
	}
	for _, k := range kernelsOf(v) {
		if k.channel.ID == channel {
			return &k, nil
		}
	}
	return nil, noKernel()
}

func noKernel() error {
	return fault.New(fault.NotFound, "jupyter.kernel", "there is no such kernel")
}

func (s *Surface) listKernels(w http.ResponseWriter, r *http.Request) error {
	all, err := s.kernels(r)
	if err != nil {
		return err
	}
	bodies := []kernelBody{}
	for _, k := range all {
		bodies = append(bodies, s.body(&k))
	}
	return surface.WriteJSON(w, http.StatusOK, bodies)
}

// getKernel answers with a kernel. Clients ask when they cannot connect to it. They take every error
// but 503 for its end, so that errors that may pass have this status.
func (s *Surface) getKernel(w http.ResponseWriter, r *http.Request) error {
	k, err := s.find(r, r.PathValue("id"))
	switch fault.KindOf(err) {
	case fault.Exhausted, fault.DeadlineExceeded, fault.Internal:
		return fault.Wrap(fault.Unavailable, "jupyter.kernel", err)
	}
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, s.body(k))
}

// decode reads the JSON object of a body; an empty one is allowed. Clients send fields that this
// server does not know.
func decode(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fault.New(fault.Malformed, "jupyter.decode", "the body is not the JSON object "+
			"that this request takes")
	}
	return nil
}

// kernelRequest asks for a kernel.
type kernelRequest struct {
	Name string            `json:"name"`
	Path string            `json:"path"`
	Env  map[string]string `json:"env"`
}

func (s *Surface) startKernel(w http.ResponseWriter, r *http.Request) error {
	var p kernelRequest
	if err := decode(r, &p); err != nil {
		return err
	}
	k, err := s.start(r, p)
	if err != nil {
		return err
	}
	b := s.body(k)
	w.Header().Set("Location", placed(r).base+"/api/kernels/"+b.ID)
	return surface.WriteJSON(w, http.StatusCreated, b)
}

// start starts a kernel and publishes that.
func (s *Surface) start(r *http.Request, p kernelRequest) (*kernel, error) {
	k, err := s.startAnywhere(r, p)
	if err != nil {
		s.kernelEvent(r, "start", placed(r).session, "", p.Name, err)
		return nil, err
	}
	s.eventOf(r, "start", k, nil)
	return k, nil
}

// startAnywhere starts a kernel: in the session of the server or of the path, or in a new session.
func (s *Surface) startAnywhere(r *http.Request, p kernelRequest) (*kernel, error) {
	l, err := s.languageOf(r.Context(), p.Name)
	if err != nil {
		return nil, err
	}
	session, inner, err := s.sessionOfDocument(r, p.Path)
	if err != nil {
		return nil, err
	}
	if session != "" {
		return s.join(r, session, l.Name, inner)
	}
	env := map[string]string{}
	for key, value := range p.Env {
		if strings.HasPrefix(key, "KERNEL_") {
			env[key] = value
		}
	}
	var v protocol.Session
	err = s.call(r, protocol.OpSessionCreate, protocol.SessionCreate{
		Language: l.Name, Labels: map[string]string{labelServer: ownKernel}, Env: env,
	}, &v)
	if err != nil {
		return nil, err
	}
	if kernels := kernelsOf(v); len(kernels) > 0 {
		return &kernels[0], nil
	}
	return s.startIn(r, v.ID, l.Name, "")
}

// join starts a kernel for a document in a session, which is one of the server's from then on.
func (s *Surface) join(r *http.Request, session, language, document string) (*kernel, error) {
	if placed(r).session == "" {
		err := s.relabel(r, session, func(labels map[string]string) {
			if labels[labelServer] == "" {
				labels[labelServer] = joinedSession
			}
		})
		if err != nil {
			return nil, err
		}
	}
	folder, err := s.workFolder(r, session, document)
	if err != nil {
		return nil, err
	}
	return s.startIn(r, session, language, folder)
}

// workFolder returns the folder in which the kernel of a document starts: the innermost one that
// exists of those that the document is in.
func (s *Surface) workFolder(r *http.Request, session, document string) (string, error) {
	folder := folderOf(document)
	for ; folder != ""; folder = folderOf(folder) {
		var f protocol.File
		err := s.call(r, protocol.OpFileStat, protocol.FileStat{
			FileRef: protocol.FileRef{Session: session, Path: folder},
		}, &f)
		if err == nil && f.Dir {
			return folder, nil
		}
		if err != nil && (!fault.Is(err, fault.NotFound) || fault.PublicOf(err).Field == "") {
			return "", err
		}
	}
	return "", nil
}

// startIn starts a kernel in a session, and returns once it is ready.
func (s *Surface) startIn(r *http.Request, session, language, folder string) (*kernel, error) {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Start)
	defer cancel()
	who := placed(r).who
	open := protocol.ChannelOpen{
		Session: session, Kind: "kernel", Language: language, Cwd: folder,
		Key: "jupyter-kernel-" + rand.Text(),
	}
	var c protocol.Channel
	if err := s.cfg.Node.Call(ctx, who, protocol.OpChannelOpen, open, &c); err != nil {
		return nil, err
	}
	if err := s.restart(ctx, r, session, c.ID); err != nil {
		return nil, err
	}
	return s.find(r, kernelID(session, c.ID))
}

// restart gives a kernel a new process, and returns once it is ready.
func (s *Surface) restart(ctx context.Context, r *http.Request, session, channel string) error {
	c, err := s.attach(ctx, r, session, channel)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)()
	return c.Request(protocol.OpRestart, struct{}{}, nil)
}

// attach attaches to a kernel for a request about it.
func (s *Surface) attach(ctx context.Context, r *http.Request, session, channel string,
) (*kernelclient.Client, error) {
	link, err := s.cfg.Node.Open(ctx, placed(r).who)
	if err != nil {
		return nil, err
	}
	return kernelclient.Attach(ctx, link,
		kernelclient.Target{Session: session, Channel: channel, Offset: -1})
}

// deleteKernel ends a kernel, and its session if that was made for it and has no other kernel.
func (s *Surface) deleteKernel(w http.ResponseWriter, r *http.Request) error {
	k, err := s.find(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := s.endKernel(r, k); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Surface) endKernel(r *http.Request, k *kernel) error {
	if err := s.shutDown(r, k); err != nil {
		return err
	}
	return s.endUnused(r, k.session)
}

// shutDown ends a kernel and publishes that.
func (s *Surface) shutDown(r *http.Request, k *kernel) error {
	err := s.closeKernel(r, k)
	s.eventOf(r, "shutdown", k, err)
	return err
}

// closeKernel ends a kernel and nothing else.
func (s *Surface) closeKernel(r *http.Request, k *kernel) error {
	if k.reason != "" {
		return nil // it has ended with its session
	}
	return s.call(r, protocol.OpChannelClose,
		protocol.ChannelRef{Session: k.session, Channel: k.channel.ID}, nil)
}

// endUnused deletes a session that was made for a kernel, if it has no kernel and no notebook has
// its labels there.
func (s *Surface) endUnused(r *http.Request, session string) error {
	if placed(r).session != "" {
		return nil
	}
	var v protocol.Session
	ref := protocol.SessionRef{Session: session}
	if err := s.call(r, protocol.OpSessionGet, ref, &v); err != nil {
		return err
	}
	elsewhere := func(n notebook) bool { return strings.Contains(n.Kernel, "-") }
	if v.Labels[labelServer] != ownKernel || v.State != "lost" && len(kernelsOf(v)) > 0 ||
		slices.ContainsFunc(notebooksOf(v), elsewhere) {
		return nil
	}
	return s.call(r, protocol.OpSessionDelete, ref, nil)
}

func (s *Surface) interruptKernel(w http.ResponseWriter, r *http.Request) error {
	k, err := s.find(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	err = s.interrupt(r, k)
	s.eventOf(r, "interrupt", k, err)
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Surface) interrupt(r *http.Request, k *kernel) error {
	ctx, cancel := s.bounded(r)
	defer cancel()
	c, err := s.attach(ctx, r, k.session, k.channel.ID)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Request(protocol.OpInterrupt, protocol.Interrupt{}, nil)
}

func (s *Surface) restartKernel(w http.ResponseWriter, r *http.Request) error {
	k, err := s.find(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Start)
	defer cancel()
	err = s.restart(ctx, r, k.session, k.channel.ID)
	s.eventOf(r, "restart", k, err)
	if err != nil {
		return err
	}
	if k, err = s.find(r, k.id()); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, s.body(k))
}

// folderOf returns the folder that a path is in; empty means the home folder.
func folderOf(path string) string {
	if !contents.Valid(path) {
		return ""
	}
	if at := strings.LastIndexByte(path, '/'); at > 0 {
		return path[:at]
	}
	return ""
}
