// Package remotetest is a node with one session, whose files are in memory, for tests.
package remotetest

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Session is the id of the session, and Tenant its owner.
const (
	Session = "s_abc"
	Tenant  = "tenant"
)

// File is a file of the session.
type File struct {
	Type    string
	Content string
	Mode    uint32
	// Target is the absolute path to which a link leads.
	Target string
}

// Node is the node. Its methods are safe for concurrent use.
type Node struct {
	t testing.TB

	mu    sync.Mutex // guards all below
	files map[string]File
	full  bool
	fail  error
	links map[*link]bool
	Ops   []string // the operations that were asked for
}

// New returns a node with an empty home.
func New(t testing.TB) *Node {
	return &Node{
		t: t, links: map[*link]bool{},
		files: map[string]File{
			"/": {Type: "folder", Mode: 0o755}, "/home/user": {Type: "folder", Mode: 0o755},
		},
	}
}

// Store stores a file and its parents.
func (n *Node) Store(name string, f File) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put(name, f)
}

func (n *Node) put(name string, f File) {
	for dir := path.Dir(name); n.files[dir].Type == ""; dir = path.Dir(dir) {
		n.files[dir] = File{Type: "folder", Mode: 0o755}
	}
	n.files[name] = f
}

// Get returns a file.
func (n *Node) Get(name string) File {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.files[name]
}

// Fill makes the disk full.
func (n *Node) Fill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.full = true
}

// Fail makes all operations fail.
func (n *Node) Fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = err
}

// Links returns the number of open links.
func (n *Node) Links() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.links)
}

// Change sends changes to all watches.
func (n *Node) Change(c protocol.FileChanges) {
	n.mu.Lock()
	defer n.mu.Unlock()
	params, _ := json.Marshal(c)
	for l := range n.links {
		if l.watch != 0 {
			l.emit(params)
		}
	}
}

// Open returns a link.
func (n *Node) Open(_ context.Context, who noderpc.Principal) (nodecall.Link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if who.Tenant != Tenant {
		n.t.Errorf("the principal is %+v", who)
	}
	l := &link{n: n, wake: make(chan struct{}, 1), done: make(chan struct{})}
	n.links[l] = true
	return l, nil
}

type link struct {
	n    *Node
	wake chan struct{}
	done chan struct{}
	once sync.Once

	// guarded by n.mu
	queue   []frame.Frame
	watch   uint32
	write   *protocol.FileWrite
	request uint64
	content []byte
}

func (l *link) Close() error {
	l.once.Do(func() { close(l.done) })
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	delete(l.n.links, l)
	return nil
}

func (l *link) Next() (frame.Frame, error) {
	for {
		l.n.mu.Lock()
		if len(l.queue) > 0 {
			f := l.queue[0]
			l.queue = l.queue[1:]
			l.n.mu.Unlock()
			return f, nil
		}
		l.n.mu.Unlock()
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

func (l *link) emit(params []byte) {
	body, _ := json.Marshal(protocol.Reply{
		Event: protocol.EventFile, Ch: l.watch, Params: params,
	})
	l.push(frame.Frame{Type: frame.Control, Body: body})
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
	select {
	case <-l.done:
		return io.ErrClosedPipe
	default:
	}
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	for _, f := range frames {
		if f.Type == frame.Data {
			l.data(f)
			continue
		}
		var req protocol.Request
		if err := json.Unmarshal(f.Body, &req); err != nil {
			return err
		}
		l.n.Ops = append(l.n.Ops, req.Op+" "+string(req.Params))
		l.serve(req)
	}
	return nil
}

// data takes a part of a file that is written.
func (l *link) data(f frame.Frame) {
	if l.write == nil {
		return
	}
	l.content = append(l.content, f.Body...)
	if f.Flags&frame.FlagEnd == 0 {
		return
	}
	w := l.write
	l.write = nil
	mode := w.Mode
	if mode == 0 {
		mode = 0o644
	}
	l.n.put(w.Path, File{Type: "file", Content: string(l.content), Mode: mode})
	l.answer(l.request, l.n.describe(w.Path), nil)
}

// params has the parameters of all operations.
type params struct {
	protocol.FileRef
	To        string `json:"to"`
	NoFollow  bool   `json:"no_follow"`
	Recursive bool   `json:"recursive"`
	Depth     int    `json:"depth"`
	Limit     int    `json:"limit"`
	After     string `json:"after"`
	Offset    int64  `json:"offset"`
	Length    int64  `json:"length"`
	Mode      uint32 `json:"mode"`
}

func (l *link) serve(req protocol.Request) {
	var p params
	if err := json.Unmarshal(req.Params, &p); err != nil || p.Session != Session {
		l.n.t.Errorf("%s %s: %v", req.Op, req.Params, err)
	}
	if l.n.fail != nil {
		l.answer(req.ID, nil, l.n.fail)
		return
	}
	switch req.Op {
	case protocol.OpFileWatch:
		l.watch = req.Ch
		l.answer(req.ID, l.n.describe(p.Path), nil)
	case protocol.OpFileWrite:
		if l.n.full {
			l.answer(req.ID, nil, fault.New(fault.DiskFull, "x", "the disk is full"))
			return
		}
		l.request, l.content = req.ID, nil
		l.write = &protocol.FileWrite{FileRef: p.FileRef, Mode: p.Mode}
	case protocol.OpFileRead:
		l.read(req.ID, p)
	default:
		result, err := l.n.serve(req.Op, p)
		l.answer(req.ID, result, err)
	}
}

// read sends a part of a file.
func (l *link) read(id uint64, p params) {
	name := l.n.follow(p.Path)
	f, err := l.n.find(name)
	if err == nil && f.Type != "file" {
		err = fault.Invalid("x", "path", "this is a folder")
	}
	if err != nil {
		l.answer(id, nil, err)
		return
	}
	part := protocol.FilePart{File: l.n.describe(name), Offset: p.Offset}
	if p.Offset < 0 {
		part.Offset = max(0, part.Size+p.Offset)
	}
	part.Length = max(0, part.Size-part.Offset)
	if p.Length > 0 {
		part.Length = min(part.Length, p.Length)
	}
	l.answer(id, part, nil)
	rest := f.Content[min(part.Offset, part.Size):][:part.Length]
	for len(rest) > 1000 {
		l.push(frame.Frame{Type: frame.Data, Body: []byte(rest[:1000])})
		rest = rest[1000:]
	}
	l.push(frame.Frame{Type: frame.Data, Flags: frame.FlagEnd, Body: []byte(rest)})
}

func (n *Node) serve(op string, p params) (any, error) {
	f, err := n.find(p.Path)
	switch op {
	case protocol.OpFileStat:
		name := p.Path
		if !p.NoFollow {
			name = n.follow(name)
			_, err = n.find(name)
		}
		return n.describe(name), err
	case protocol.OpFileMkdir:
		if err == nil {
			return nil, fault.New(fault.Conflict, "x", "it exists").For(fault.CauseExists)
		}
		n.put(p.Path, File{Type: "folder", Mode: 0o755})
		return n.describe(p.Path), nil
	case protocol.OpFileMove:
		if err == nil {
			delete(n.files, p.Path)
			n.put(p.To, f)
		}
		return n.describe(p.To), err
	case protocol.OpFileRemove:
		maps.DeleteFunc(n.files, func(name string, _ File) bool {
			return name == p.Path || strings.HasPrefix(name, p.Path+"/")
		})
		return struct{}{}, err
	case protocol.OpFileList:
		return n.list(p), err
	}
	return nil, fault.New(fault.Unsupported, "x", "no %s", op)
}

// list returns a page of the entries below a folder.
func (n *Node) list(p params) protocol.FileListing {
	page := protocol.FileListing{Path: p.Path, Entries: []protocol.File{}}
	for _, name := range slices.Sorted(maps.Keys(n.files)) {
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(p.Path, "/")+"/")
		if !ok || rest == "" || strings.Count(rest, "/") >= max(1, p.Depth) || name <= p.After {
			continue
		}
		if len(page.Entries) == p.Limit {
			page.Next = page.Entries[p.Limit-1].Path
			break
		}
		page.Entries = append(page.Entries, n.describe(name))
	}
	return page
}

func (n *Node) find(name string) (File, error) {
	f, ok := n.files[name]
	if !ok {
		err := fault.New(fault.NotFound, "x", "there is no such file")
		err.Field = "path"
		return f, err
	}
	return f, nil
}

// follow returns the path to which a link leads.
func (n *Node) follow(name string) string {
	if f := n.files[name]; f.Type == "link" {
		return f.Target
	}
	return name
}

func (n *Node) describe(name string) protocol.File {
	f := n.files[name]
	d := protocol.File{
		Path: name, Type: f.Type, Size: int64(len(f.Content)), Mode: f.Mode, Owner: "user",
		Group: "user", UID: 1000, GID: 1000, ModifiedMS: 1700000000123, Dir: f.Type == "folder",
		ETag: "tag",
	}
	if to, ok := n.files[f.Target]; ok && f.Type == "link" {
		d.Target, d.LeadsTo, d.LeadsType, d.Dir = f.Target, f.Target, to.Type, to.Type == "folder"
	}
	return d
}
