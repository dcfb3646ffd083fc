// Package clienttest is a server of the public protocol with scripts in place of sandboxes, for
// tests of clients. It keeps real logs and real idempotency keys, so that its results also hold for
// Sandgate.
package clienttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// Script has the functions that run in place of programs and kernels. Nil fields do nothing.
type Script struct {
	// Program is the program of a process channel. It returns the exit.
	Program func(ctx context.Context, p *Program) protocol.Exit
	// Execute runs a kernel's cell. Cells of one kernel run one after another.
	Execute func(ctx context.Context, c *Cell) message.ExecuteReply
	// Complete, Inspect and IsComplete answer questions about code.
	Complete   func(protocol.Complete) message.Reply
	Inspect    func(protocol.Complete) message.Reply
	IsComplete func(code string) message.Reply
	// Variables returns the list of variables.
	Variables func() message.Reply
	// Run is the response of POST /v1/run, line by line.
	Run []string
}

// Server is a scripted server.
type Server struct {
	// URL is the server's address. Token is the token that it accepts.
	URL   string
	Token string

	script Script
	http   *httptest.Server
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex // guards all fields below
	sessions map[string]*session
	order    []string
	files    map[string][]byte // by session and path
	deleted  []string
	seen     int // number of accepted WebSockets
	conns    map[*conn]struct{}
	muted    map[string]bool // sessions whose requests get no reply
}

type session struct {
	public   protocol.Session
	channels map[string]*channel
	keys     map[string]string
	order    []string
}

// New starts a server.
func New(script Script) *Server {
	s := &Server{
		Token: "sgt_test", script: script,
		sessions: make(map[string]*session), files: make(map[string][]byte),
		conns: make(map[*conn]struct{}), muted: make(map[string]bool),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter,
		_ *http.Request,
	) {
		answer(w, 200, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /v1/status", s.authorize(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"node": protocol.NodeStatus{
			Version:   "test",
			Pool:      protocol.Pool{Size: 2, Ready: 2},
			Languages: []protocol.Language{{Name: "python", Display: "Python"}},
		}})
	}))
	mux.HandleFunc("GET /v1", s.authorize(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{
			"protocol": protocol.Subprotocol, "server": "sandgate/test",
			"languages": []protocol.Language{
				{
					Name: "python", Display: "Python", Aliases: []string{"py"},
					Extensions: []string{".py"},
				},
				{Name: "javascript", Display: "JavaScript", Extensions: []string{".js", ".mjs"}},
			},
		})
	}))
	mux.HandleFunc("POST /v1/run", s.authorize(func(w http.ResponseWriter, r *http.Request) {
		for _, line := range script.Run {
			_, _ = w.Write([]byte(line + "\n"))
			w.(http.Flusher).Flush()
		}
	}))
	mux.HandleFunc("GET /v1/ws", s.authorize(s.socket))
	mux.HandleFunc("POST /v1/sessions", s.authorize(s.create))
	mux.HandleFunc("GET /v1/sessions", s.authorize(s.rest(protocol.OpSessionList)))
	mux.HandleFunc("GET /v1/sessions/{id}", s.authorize(s.rest(protocol.OpSessionGet)))
	mux.HandleFunc("DELETE /v1/sessions/{id}", s.authorize(s.rest(protocol.OpSessionDelete)))
	mux.HandleFunc("PUT /v1/sessions/{id}/files/{path...}", s.authorize(s.put))
	mux.HandleFunc("GET /v1/sessions/{id}/files/{path...}", s.authorize(s.get))
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL
	return s
}

// Close stops the server and all scripts.
func (s *Server) Close() {
	s.cancel()
	s.http.CloseClientConnections()
	s.http.Close()
	s.work.Wait()
}

// Sockets returns how many WebSockets were accepted.
func (s *Server) Sockets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Deleted lists the sessions that were deleted, in order.
func (s *Server) Deleted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.deleted...)
}

// File returns an uploaded file.
func (s *Server) File(session, path string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.files[session+"\x00"+path]
	return b, ok
}

// SetFile creates or replaces a file.
func (s *Server) SetFile(session, path string, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[session+"\x00"+path] = b
}

// CloseStdin ends a process's standard input from the server's side.
func (s *Server) CloseStdin(session, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[session].channels[id].stdin.close()
}

func (s *Server) authorize(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+s.Token {
			refuse(w, fault.New(fault.Unauthenticated, "door", "the token is wrong"))
			return
		}
		next(w, r)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, err error) {
	p := fault.PublicOf(err)
	answer(w, p.Kind.Row().HTTP, map[string]any{"error": p})
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var p protocol.SessionCreate
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		refuse(w, fault.Wrap(fault.Malformed, "create", err))
		return
	}
	body, _ := json.Marshal(p)
	result, err := s.do(nil, protocol.Request{Op: protocol.OpSessionCreate, Params: body})
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, 201, result)
}

func (s *Server) rest(op string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := json.Marshal(protocol.SessionRef{Session: r.PathValue("id")})
		result, err := s.do(nil, protocol.Request{Op: op, Params: body})
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, 200, result)
	}
}

// filePath returns the path of a file as the client meant it: the part after files/, unescaped.
func filePath(r *http.Request) string {
	_, rest, _ := strings.Cut(r.URL.EscapedPath(), "/files/")
	path, err := url.PathUnescape(rest)
	if err != nil {
		return rest
	}
	return path
}

func (s *Server) put(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, fault.Wrap(fault.Malformed, "put", err))
		return
	}
	path := filePath(r)
	s.SetFile(r.PathValue("id"), path, b)
	answer(w, 200, protocol.File{Path: path, Size: int64(len(b)), Mode: 0o644})
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	b, ok := s.File(r.PathValue("id"), filePath(r))
	if !ok {
		refuse(w, fault.New(fault.NotFound, "get", "there is no such file"))
		return
	}
	if r.URL.Query().Has("stat") {
		answer(w, 200, protocol.File{
			Path: filePath(r), Type: "file", Size: int64(len(b)),
			Mode: 0o644,
		})
		return
	}
	_, _ = w.Write(b)
}

// do performs an operation that needs no connection, or an operation on conn, which may be nil.
func (s *Server) do(c *conn, req protocol.Request) (any, error) {
	var ref protocol.ChannelRef
	_ = json.Unmarshal(req.Params, &ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.sessions[ref.Session]
	missing := func() error {
		return fault.New(fault.NotFound, req.Op, "there is no session %q",
			ref.Session)
	}
	switch req.Op {
	case protocol.OpSessionCreate:
		var p protocol.SessionCreate
		_ = json.Unmarshal(req.Params, &p)
		if p.Language == "" {
			p.Language = "python"
		}
		if p.Language == "cobol" {
			return nil, fault.Invalid(req.Op, "language", "there is no language %q", p.Language)
		}
		id := fmt.Sprintf("s%d", len(s.order)+1)
		n := &session{
			public: protocol.Session{
				ID: id, Name: p.Name, Language: p.Language, State: "running",
				CreatedMS: 1, ActiveMS: 1,
			},
			channels: make(map[string]*channel), keys: make(map[string]string),
		}
		s.sessions[id] = n
		s.order = append(s.order, id)
		return n.public, nil
	case protocol.OpSessionList:
		list := protocol.SessionList{Sessions: []protocol.Session{}}
		for i := len(s.order) - 1; i >= 0; i-- {
			if n := s.sessions[s.order[i]]; n != nil {
				list.Sessions = append(list.Sessions, n.view())
			}
		}
		return list, nil
	case protocol.OpSessionGet:
		if known == nil {
			return nil, missing()
		}
		return known.view(), nil
	case protocol.OpSessionDelete:
		if known == nil {
			return nil, missing()
		}
		for _, ch := range known.channels {
			ch.cancel()
		}
		delete(s.sessions, ref.Session)
		s.deleted = append(s.deleted, ref.Session)
		return struct{}{}, nil
	case protocol.OpFileChanges: // scripts change no files
		return protocol.CreatedFiles{Cursor: "1", Files: []protocol.CreatedFile{}}, nil
	case protocol.OpChannelList:
		if known == nil {
			return nil, missing()
		}
		list := protocol.ChannelList{Channels: []protocol.Channel{}}
		for _, id := range known.order {
			list.Channels = append(list.Channels, known.channels[id].public())
		}
		return list, nil
	case protocol.OpChannelOpen:
		if known == nil {
			return nil, missing()
		}
		var p protocol.ChannelOpen
		_ = json.Unmarshal(req.Params, &p)
		if id, ok := known.keys[p.Key]; ok && p.Key != "" {
			return known.channels[id].public(), nil
		}
		ch, err := s.open(known, p)
		if err != nil {
			return nil, err
		}
		return ch.public(), nil
	case protocol.OpChannelClose:
		if known == nil || known.channels[ref.Channel] == nil {
			return nil, missing()
		}
		known.channels[ref.Channel].cancel()
		return struct{}{}, nil
	}
	if c == nil {
		return nil, fault.New(fault.Unsupported, req.Op, "there is no operation %q", req.Op)
	}
	return c.do(req)
}

// Lose ends a session as if its sandbox had failed.
func (s *Server) Lose(id, reason string) {
	s.mu.Lock()
	known := s.sessions[id]
	known.public.State, known.public.Reason = "lost", reason
	var all []*channel
	for _, ch := range known.channels {
		all = append(all, ch)
	}
	s.mu.Unlock()
	for _, ch := range all {
		ch.lose(protocol.Lost{Session: id, Reason: reason, Message: "the sandbox ended: " + reason})
	}
}

// view returns the session as clients see it.
func (n *session) view() protocol.Session {
	p := n.public
	p.Channels = nil
	for _, id := range n.order {
		p.Channels = append(p.Channels, n.channels[id].public())
	}
	return p
}
