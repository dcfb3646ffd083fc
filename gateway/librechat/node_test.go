package librechat

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// node is a node whose sessions are in memory. The function program is each program.
type node struct {
	t *testing.T
	// program changes the files of a session and returns what it prints.
	program func(open protocol.ChannelOpen, files map[string]string) (stdout, stderr string,
		e protocol.Exit)
	refuse    func(op string) error
	templates protocol.TemplateList

	mu       sync.Mutex // guards all below
	sessions map[string]*session
	ids      int
	deleted  []string
	closed   chan string // each channel that was closed
	requests []string    // the operations and their paths
	turns    map[*link]bool
	notes    map[string]string // by session
}

// session is a session of node.
type session struct {
	id, tenant string
	create     protocol.SessionCreate
	files      map[string]string
	times      map[string]time.Time
	opened     []protocol.ChannelOpen
	// seen has the files at each cursor.
	seen []map[string]string
}

func newNode(t *testing.T) *node {
	return &node{
		t: t, sessions: map[string]*session{}, closed: make(chan string, 10),
		turns: map[*link]bool{}, notes: map[string]string{},
	}
}

func missing(field string) error {
	err := fault.New(fault.NotFound, "node", "it does not exist")
	err.Field = field
	return err
}

func (n *node) Call(_ context.Context, who noderpc.Principal, op string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	out, err := n.serve(who, protocol.Request{Op: op, Params: raw})
	if err != nil || result == nil {
		return err
	}
	raw, _ = json.Marshal(out)
	return json.Unmarshal(raw, result)
}

func (n *node) Open(_ context.Context, who noderpc.Principal) (nodecall.Link, error) {
	return &link{n: n, who: who, wake: make(chan struct{}, 1), done: make(chan struct{})}, nil
}

// serve performs one operation.
func (n *node) serve(who noderpc.Principal, req protocol.Request) (any, error) {
	if n.refuse != nil {
		if err := n.refuse(req.Op); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(req)
	switch req.Op {
	case protocol.OpSessionCreate, protocol.OpSessionEnsure:
		var c protocol.SessionCreate
		_ = json.Unmarshal(req.Params, &c) // the surface encodes it
		return n.create(who, c), nil
	case protocol.OpSessionFind:
		var p protocol.SessionName
		_ = json.Unmarshal(req.Params, &p)
		if s := n.named(who, p.Name); s != nil {
			return protocol.Session{ID: s.id, State: "running"}, nil
		}
		return nil, missing("name")
	case protocol.OpSessionList:
		return protocol.SessionList{}, nil
	case protocol.OpTemplateList:
		return n.templates, nil
	case protocol.OpChannelClose:
		n.closed <- string(req.Params)
		return struct{}{}, nil
	}
	var p struct {
		protocol.FileRef
		To        string `json:"to"`
		Recursive bool   `json:"recursive"`
		Depth     int    `json:"depth"`
		Since     string `json:"since"`
	}
	_ = json.Unmarshal(req.Params, &p)
	s := n.sessions[p.Session]
	if s == nil || s.tenant != who.Tenant {
		return nil, missing("")
	}
	switch req.Op {
	case protocol.OpSessionDelete:
		delete(n.sessions, p.Session)
		n.deleted = append(n.deleted, p.Session)
		return struct{}{}, nil
	case protocol.OpFileList:
		return s.list(p.Path, p.Depth)
	case protocol.OpFileMkdir:
		s.times[p.Path+"/"] = time.Now()
		return struct{}{}, nil
	case protocol.OpFileChanges:
		return s.changes(p.Path, p.Since)
	case protocol.OpFileMove:
		s.put(p.To, s.files[p.Path])
		delete(s.files, p.Path)
		return struct{}{}, nil
	case protocol.OpFileRemove:
		maps.DeleteFunc(s.files, func(name, _ string) bool {
			return name == p.Path || strings.HasPrefix(name, p.Path+"/")
		})
		return struct{}{}, nil
	}
	n.t.Errorf("there is no operation %s", req.Op)
	return nil, fault.New(fault.Unsupported, "node", "no %s", req.Op)
}

// note records a request. mu is held.
func (n *node) note(req protocol.Request) {
	var p struct{ Path string }
	_ = json.Unmarshal(req.Params, &p)
	n.requests = append(n.requests, strings.TrimSpace(req.Op+" "+p.Path))
}

func (n *node) named(who noderpc.Principal, name string) *session {
	for _, s := range n.sessions {
		if s.create.Name == name && s.tenant == who.Tenant && name != "" {
			return s
		}
	}
	return nil
}

func (n *node) create(who noderpc.Principal, c protocol.SessionCreate) protocol.Ensured {
	if s := n.named(who, c.Name); s != nil {
		return protocol.Ensured{Session: protocol.Session{ID: s.id}}
	}
	n.ids++
	s := &session{
		id: "s_" + strconv.Itoa(n.ids), tenant: who.Tenant, create: c,
		files: map[string]string{}, times: map[string]time.Time{},
	}
	n.sessions[s.id] = s
	return protocol.Ensured{Session: protocol.Session{ID: s.id}, Created: true}
}

func (s *session) put(name, content string) {
	s.files[name], s.times[name] = content, time.Now()
}

// changes returns the files of a folder that have changed since a cursor.
func (s *session) changes(folder, since string) (any, error) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(s.times)), func(name string) bool {
		return strings.HasPrefix(name, folder+"/")
	}) {
		return nil, missing("path")
	}
	s.seen = append(s.seen, maps.Clone(s.files))
	page := protocol.CreatedFiles{Cursor: strconv.Itoa(len(s.seen) - 1)}
	if since == "" {
		return page, nil
	}
	n, err := strconv.Atoi(since)
	if err != nil {
		return nil, err
	}
	for name, content := range s.files {
		if was, there := s.seen[n][name]; strings.HasPrefix(name, folder+"/") &&
			(!there || was != content) {
			page.Files = append(page.Files, protocol.CreatedFile{
				Path: name, Size: int64(len(content)), Change: protocol.ChangeChanged,
			})
		}
	}
	for name := range s.seen[n] {
		if _, there := s.files[name]; !there && strings.HasPrefix(name, folder+"/") {
			page.Files = append(page.Files, protocol.CreatedFile{
				Path: name, Change: protocol.ChangeRemoved,
			})
		}
	}
	return page, nil
}

// source writes the file of a program. Its writing is no change.
func (s *session) source(open protocol.ChannelOpen) error {
	if open.Content == "" {
		return nil
	}
	if _, there := s.files[open.File]; there {
		return fault.New(fault.Conflict, "node", "it exists")
	}
	s.put(open.File, open.Content)
	for _, files := range s.seen {
		files[open.File] = open.Content
	}
	return nil
}

// list returns the entries below a folder, at most for some levels.
func (s *session) list(folder string, depth int) (any, error) {
	found := map[string]protocol.File{}
	for name, content := range s.files {
		rest, ok := strings.CutPrefix(name, folder+"/")
		if !ok {
			continue
		}
		if strings.Count(rest, "/") < max(1, depth) {
			found[name] = protocol.File{
				Path: name, Type: "file", Size: int64(len(content)), ETag: content,
				ModifiedMS: s.times[name].UnixMilli(),
			}
		}
		if dir, _, nested := strings.Cut(rest, "/"); nested {
			found[path.Join(folder, dir)] = protocol.File{
				Path: path.Join(folder, dir), Type: "folder", Dir: true,
				ModifiedMS: s.times[name].UnixMilli(),
			}
		}
	}
	// A folder stays without its files.
	there := func(name string) bool { return strings.HasPrefix(name, folder+"/") }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(s.times)), there) && len(found) == 0 {
		return nil, missing("path")
	}
	page := protocol.FileListing{Path: folder}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		page.Entries = append(page.Entries, found[name])
	}
	return page, nil
}

// link is a link of node.
type link struct {
	n    *node
	who  noderpc.Principal
	wake chan struct{}
	done chan struct{}
	once sync.Once

	mu      sync.Mutex // guards all below
	queue   []frame.Frame
	write   *protocol.FileWrite
	id      uint64
	content []byte
	open    protocol.ChannelOpen
	session string // that of the turn
}

func (l *link) Close() error {
	l.once.Do(func() { close(l.done) })
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	delete(l.n.turns, l)
	return nil
}

func (l *link) Next() (frame.Frame, error) {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 {
			f := l.queue[0]
			l.queue = l.queue[1:]
			l.mu.Unlock()
			return f, nil
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-l.done:
			return frame.Frame{}, io.EOF
		}
	}
}

func (l *link) push(f frame.Frame) {
	l.queue = append(l.queue, f)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *link) answer(id uint64, result any, err error) {
	r := protocol.Reply{ID: id}
	if err != nil {
		p := fault.PublicOf(err)
		r.Error = &p
	} else {
		r.Result, _ = json.Marshal(result)
	}
	body, _ := json.Marshal(r)
	l.push(frame.Frame{Type: frame.Control, Body: body})
}

func (l *link) Send(frames ...frame.Frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range frames {
		if f.Type == frame.Data {
			l.data(f)
			continue
		}
		if f.Type != frame.Control {
			continue
		}
		var req protocol.Request
		if err := json.Unmarshal(f.Body, &req); err != nil {
			return err
		}
		l.serve(req)
	}
	return nil
}

func (l *link) data(f frame.Frame) {
	l.content = append(l.content, f.Body...)
	if f.Flags&frame.FlagEnd == 0 || l.write == nil {
		return
	}
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	s, w := l.n.sessions[l.write.Session], l.write
	if _, there := s.files[w.Path]; there && w.IfAbsent {
		l.answer(l.id, nil, fault.New(fault.Conflict, "node", "it exists"))
		return
	}
	s.put(w.Path, string(l.content))
	l.answer(l.id, protocol.File{
		Path: w.Path, Size: int64(len(l.content)), ETag: string(l.content),
		ModifiedMS: time.Now().UnixMilli(),
	}, nil)
}

func (l *link) serve(req protocol.Request) {
	if req.Op != protocol.OpFileChanges { // n.serve notes it
		l.n.mu.Lock()
		l.n.note(req)
		l.n.mu.Unlock()
	}
	switch req.Op {
	case protocol.OpRepeatBegin, protocol.OpRepeatEnd:
		l.turn(req)
	case protocol.OpFileChanges:
		result, err := l.n.serve(l.who, req)
		l.answer(req.ID, result, err)
	case protocol.OpFileWrite:
		l.write, l.id, l.content = new(protocol.FileWrite), req.ID, nil
		_ = json.Unmarshal(req.Params, l.write)
	case protocol.OpFileRead:
		var p protocol.FileRead
		_ = json.Unmarshal(req.Params, &p)
		l.n.mu.Lock()
		defer l.n.mu.Unlock()
		content, ok := l.n.sessions[p.Session].files[p.Path]
		if !ok {
			l.answer(req.ID, nil, missing("path"))
			return
		}
		l.answer(req.ID, protocol.FilePart{Length: int64(len(content))}, nil)
		l.push(frame.Frame{Type: frame.Data, Flags: frame.FlagEnd, Body: []byte(content)})
	case protocol.OpChannelOpen:
		_ = json.Unmarshal(req.Params, &l.open)
		if l.n.refuse != nil {
			if err := l.n.refuse(req.Op); err != nil {
				l.answer(req.ID, nil, err)
				return
			}
		}
		l.n.mu.Lock()
		err := l.n.sessions[l.open.Session].source(l.open)
		l.n.mu.Unlock()
		l.answer(req.ID, protocol.Channel{ID: "p1"}, err)
	case protocol.OpAttach:
		l.answer(req.ID, protocol.Attached{Epoch: 1}, nil)
		l.run()
	}
}

// turn begins or ends a turn. The runs of these tests never wait for one.
func (l *link) turn(req protocol.Request) {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	if req.Op == protocol.OpRepeatBegin {
		var p protocol.RepeatBegin
		_ = json.Unmarshal(req.Params, &p)
		l.session, l.n.turns[l] = p.Session, true
		var begun protocol.RepeatBegun
		if l.n.sessions[p.Session] != nil {
			begun.Note = l.n.notes[p.Session]
		}
		delete(l.n.notes, p.Session)
		l.answer(req.ID, begun, nil)
		return
	}
	var p protocol.RepeatEnd
	_ = json.Unmarshal(req.Params, &p)
	delete(l.n.turns, l)
	l.n.notes[l.session] = p.Note
	l.answer(req.ID, struct{}{}, nil)
}

// run runs the program and sends all of its output.
func (l *link) run() {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	s := l.n.sessions[l.open.Session]
	s.opened = append(s.opened, l.open)
	stdout, stderr, exit := l.n.program(l.open, s.files)
	if exit.Reason == "never" {
		return
	}
	text, _ := json.Marshal(exit)
	body := binary.BigEndian.AppendUint64(nil, 0)
	for _, r := range []frame.Record{
		{Kind: frame.KindStdout, Payload: []byte(stdout)},
		{Kind: frame.KindStderr, Payload: []byte(stderr)},
		{Kind: frame.KindExit, Payload: text},
	} {
		body = frame.AppendRecord(body, r)
	}
	l.push(frame.Frame{Type: frame.Records, Channel: 1, Body: body})
}
