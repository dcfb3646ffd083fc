package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Tokens of the tests.
const (
	tokenAll    = "all-scopes"
	tokenViewer = "viewer"
	tokenRun    = "run-only"
	tokenOther  = "another-tenant"
)

func testTokens() map[string]noderpc.Principal {
	all := []string{}
	for _, s := range protocol.Scopes() {
		all = append(all, string(s))
	}
	return map[string]noderpc.Principal{
		auth.HashToken(tokenAll): {Tenant: "t1", Subject: "ann", Scopes: all},
		auth.HashToken(tokenViewer): {
			Tenant: "t1", Subject: "vic",
			Scopes: []string{string(protocol.ScopeRead)},
		},
		auth.HashToken(tokenRun): {
			Tenant: "t1", Subject: "rob",
			Scopes: []string{string(protocol.ScopeRun)},
		},
		auth.HashToken(tokenOther): {Tenant: "t2", Subject: "eve", Scopes: all},
	}
}

// fakeNode is a scripted handler behind the real node protocol.
type fakeNode struct {
	mu       sync.Mutex
	changed  *sync.Cond
	sessions map[string]string // id → tenant
	files    map[string][]byte // session/path → content; only completed files
	uploads  int               // uploads that have begun
	aborted  int               // uploads whose link ended early
	deleted  int
	stops    int // interrupts
	fed      int // Input frames
	asked    []string
	links    int
	acks     int64
	fail     *fault.Error // the error of session.create, if any
	next     int
	labels   map[string]map[string]string // labels of sessions
	keys     *tenant.Store
	// inputs and open are shared by all links: an answer may arrive on another link than its
	// question.
	inputs chan protocol.InputReply
	open   map[*fakeLink]struct{}
}

func newFake() *fakeNode {
	f := &fakeNode{
		sessions: map[string]string{}, files: map[string][]byte{},
		labels: map[string]map[string]string{},
		inputs: make(chan protocol.InputReply, 4), open: map[*fakeLink]struct{}{},
	}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// await waits until ok returns true, or fails the test.
func (f *fakeNode) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := false
	stop := time.AfterFunc(30*time.Second, func() { f.change(func() { late = true }) })
	defer stop.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for !ok() {
		if late {
			t.Fatalf("never came: %s", what)
		}
		f.changed.Wait()
	}
}

func (f *fakeNode) change(fn func()) {
	f.mu.Lock()
	fn()
	f.mu.Unlock()
	f.changed.Broadcast()
}

type fakeLink struct {
	f       *fakeNode
	l       *noderpc.Link
	ctx     context.Context
	watches bool
	mu      sync.Mutex
	cond    *sync.Cond
	acked   int64
	stopped bool
	offset  int64
	cell    uint32
}

func (f *fakeNode) ServeLink(ctx context.Context, l *noderpc.Link) error {
	f.change(func() { f.links++ })
	s := &fakeLink{f: f, l: l, ctx: ctx}
	defer f.change(func() {
		if !s.watches {
			f.links--
		}
	})
	s.cond = sync.NewCond(&s.mu)
	f.change(func() { f.open[s] = struct{}{} })
	defer f.change(func() { delete(f.open, s) })
	var wg sync.WaitGroup
	defer wg.Wait()
	// Closing this end unblocks a Send that waits for a gateway that has gone.
	defer func() { _ = l.Close() }()
	defer s.stop()
	for {
		fr, err := l.Next()
		if err != nil {
			return err
		}
		switch fr.Type {
		case frame.Input:
			f.change(func() { f.fed++ })
			if err := s.records(fr.Channel,
				frame.Record{Kind: frame.KindStdout, Payload: fr.Body[8:]}); err != nil {
				return err
			}
		case frame.Ack:
			n := int64(binary.BigEndian.Uint64(fr.Body))
			s.mu.Lock()
			s.acked = n
			s.mu.Unlock()
			s.cond.Broadcast()
			f.change(func() { f.acks = n })
		case frame.Control:
			var req protocol.Request
			if err := json.Unmarshal(fr.Body, &req); err != nil {
				return err
			}
			if req.Op == protocol.OpPortOpen {
				return s.port(req)
			}
			if req.Op == protocol.OpKeyWatch {
				s.watchKeys(req.ID)
				continue
			}
			if req.Op == protocol.OpExecute {
				s.execute(&wg, req)
				continue
			}
			result, err := s.op(req)
			if err != nil {
				if err == io.EOF {
					return nil
				}
			}
			if req.ID != 0 {
				if err := s.reply(req.ID, result, err); err != nil {
					return err
				}
			}
		}
	}
}

func (s *fakeLink) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.cond.Broadcast()
}

func (s *fakeLink) reply(id uint64, result any, err error) error {
	r := protocol.Reply{ID: id}
	if err != nil {
		p := fault.PublicOf(err)
		r.Error = &p
	} else {
		r.Result, _ = json.Marshal(result)
	}
	b, _ := json.Marshal(r)
	return s.l.Send(frame.Frame{Type: frame.Control, Body: b})
}

func (s *fakeLink) records(ch uint32, recs ...frame.Record) error {
	s.mu.Lock()
	body := binary.BigEndian.AppendUint64(nil, uint64(s.offset))
	for _, r := range recs {
		body = frame.AppendRecord(body, r)
		s.offset += r.Size()
	}
	s.mu.Unlock()
	return s.l.Send(frame.Frame{Type: frame.Records, Channel: ch, Body: body})
}

// watchKeys sends the key table until the link ends.
func (s *fakeLink) watchKeys(id uint64) {
	s.watches = true
	s.f.change(func() { s.f.links-- }) // the gateway's own link, which tests do not count
	x, changed := s.f.keys.Index()
	_ = s.reply(id, x.Table, nil)
	go func() {
		for {
			select {
			case <-changed:
			case <-s.ctx.Done():
				return
			}
			x, changed = s.f.keys.Index()
			params, _ := json.Marshal(x.Table)
			b, _ := json.Marshal(protocol.Reply{Event: protocol.EventKeys, Params: params})
			_ = s.l.Send(frame.Frame{Type: frame.Control, Body: b})
		}
	}()
}

func (s *fakeLink) owned(id string) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if t, ok := s.f.sessions[id]; !ok || t != s.l.Principal().Tenant {
		return fault.New(fault.NotFound, "fake", "there is no such session")
	}
	return nil
}

// owner returns the owner of a session to the gateway.
func (s *fakeLink) owner(req protocol.Request) (any, error) {
	var ref protocol.SessionRef
	_ = json.Unmarshal(req.Params, &ref)
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	tenant, ok := s.f.sessions[ref.Session]
	if !ok || s.l.Principal().Tenant != noderpc.GatewayTenant {
		return nil, fault.New(fault.NotFound, "fake", "there is no such session")
	}
	return nodes.SessionOwner{
		Tenant: tenant, Subject: "ann", State: "running", Labels: s.f.labels[ref.Session],
	}, nil
}

func (s *fakeLink) op(req protocol.Request) (any, error) {
	f := s.f
	switch req.Op {
	case protocol.OpSessionOwner:
		return s.owner(req)
	case protocol.OpAudit:
		return struct{}{}, nil
	case protocol.OpKeyCreate:
		var p protocol.KeyCreate
		_ = json.Unmarshal(req.Params, &p)
		k, secret, err := f.keys.Create(context.Background(),
			tenant.Key{Name: p.Name, Tenant: s.l.Principal().Tenant, Role: tenant.Role(p.Role)})
		x, _ := f.keys.Index()
		return protocol.NewKey{
			Key: protocol.Key{ID: k.ID, Tenant: k.Tenant}, Secret: secret,
			Version: x.Version,
		}, err
	case protocol.OpKeyRevoke:
		var p protocol.KeyRef
		_ = json.Unmarshal(req.Params, &p)
		err := f.keys.Revoke(context.Background(), s.l.Principal().Tenant, p.ID)
		x, _ := f.keys.Index()
		return protocol.KeyState{Version: x.Version}, err
	case protocol.OpKeyRotate:
		var p protocol.KeyRotate
		_ = json.Unmarshal(req.Params, &p)
		k, secret, err := f.keys.Rotate(context.Background(), s.l.Principal().Tenant, p.ID, 0)
		x, _ := f.keys.Index()
		return protocol.NewKey{
			Key: protocol.Key{ID: k.ID, Tenant: k.Tenant}, Secret: secret,
			Version: x.Version,
		}, err
	case protocol.OpKeyList:
		x, _ := f.keys.Index()
		out := protocol.KeyList{Keys: []protocol.Key{}}
		for _, k := range x.Keys {
			if k.Tenant == s.l.Principal().Tenant {
				out.Keys = append(out.Keys, protocol.Key{ID: k.ID})
			}
		}
		return out, nil
	case protocol.OpTenantList:
		return protocol.TenantList{Tenants: []protocol.Tenant{{Name: s.l.Principal().Tenant}}}, nil
	case protocol.OpTenantQuota:
		var p protocol.TenantQuota
		_ = json.Unmarshal(req.Params, &p)
		err := f.keys.SetQuota(context.Background(), p.Tenant, (*tenant.Quota)(p.Quota))
		x, _ := f.keys.Index()
		return protocol.KeyState{Version: x.Version}, err
	case protocol.OpStatus:
		return protocol.NodeStatus{
			Version:   "fake",
			Languages: []protocol.Language{{Name: "python", Display: "Python"}},
		}, nil
	case protocol.OpSessionCreate:
		var p protocol.SessionCreate
		_ = json.Unmarshal(req.Params, &p)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.fail != nil {
			return nil, f.fail
		}
		f.next++
		id := "s" + strconv.Itoa(f.next)
		f.sessions[id], f.labels[id] = s.l.Principal().Tenant, p.Labels
		return protocol.Session{
			ID: id, Name: p.Name, Language: p.Language, State: "running",
			Channels: []protocol.Channel{},
		}, nil
	case protocol.OpSessionList:
		out := protocol.SessionList{Sessions: []protocol.Session{}}
		f.mu.Lock()
		for id, t := range f.sessions {
			if t == s.l.Principal().Tenant {
				out.Sessions = append(out.Sessions, protocol.Session{ID: id})
			}
		}
		f.mu.Unlock()
		return out, nil
	case protocol.OpInterrupt:
		f.change(func() {
			f.stops++
			for l := range f.open {
				l.stop()
			}
		})
		return struct{}{}, nil
	case protocol.OpInput:
		var p protocol.InputReply
		_ = json.Unmarshal(req.Params, &p)
		f.inputs <- p
		return struct{}{}, nil
	case protocol.OpAttach:
		return protocol.Attached{Epoch: 1}, nil
	case "node.bye":
		return nil, io.EOF
	}
	var ref protocol.FileRef
	_ = json.Unmarshal(req.Params, &ref)
	if err := s.owned(ref.Session); err != nil {
		return nil, err
	}
	switch req.Op {
	case protocol.OpSessionGet:
		f.mu.Lock()
		defer f.mu.Unlock()
		return protocol.Session{ID: ref.Session, Labels: f.labels[ref.Session]}, nil
	case protocol.OpSessionDelete:
		f.change(func() { delete(f.sessions, ref.Session); f.deleted++ })
		return struct{}{}, nil
	case protocol.OpChannelOpen:
		return protocol.Channel{ID: "k1", Kind: "kernel"}, nil
	case protocol.OpChannelList:
		return protocol.ChannelList{Channels: []protocol.Channel{{ID: "k1"}}}, nil
	case protocol.OpFileWrite:
		return s.upload(ref)
	case protocol.OpFileRead:
		return nil, s.download(req, ref)
	case protocol.OpFileStat:
		f.mu.Lock()
		defer f.mu.Unlock()
		b, ok := f.files[ref.Session+"/"+ref.Path]
		if !ok {
			return nil, fault.New(fault.NotFound, "fake", "no file")
		}
		return protocol.File{
			Path: ref.Path, Type: "file", Size: int64(len(b)), Mode: 0o644,
			ETag: etagFor(b),
		}, nil
	case protocol.OpPortList:
		return protocol.PortList{Ports: []protocol.Port{{Port: 8000, Address: "127.0.0.1"}}}, nil
	case protocol.OpTreeWrite:
		return s.upload(ref)
	case protocol.OpTreeRead:
		return nil, s.download(req, ref)
	case protocol.OpFileList, protocol.OpFileMkdir, protocol.OpFileMove, protocol.OpFileCopy,
		protocol.OpFileRemove:
		f.change(func() { f.asked = append(f.asked, req.Op+" "+string(req.Params)) })
		if req.Op == protocol.OpFileList {
			return protocol.FileListing{
				Path:    ref.Path,
				Entries: []protocol.File{{Path: ref.Path + "/x"}}, Next: "eA",
			}, nil
		}
		return protocol.File{Path: ref.Path}, nil
	}
	return nil, fault.New(fault.Unsupported, "fake", "no op %s", req.Op)
}

func etagFor(b []byte) string { return fmt.Sprintf("e%x", sha256.Sum256(b))[:12] }

// port connects the link to a real port of this machine.
func (s *fakeLink) port(req protocol.Request) error {
	var p protocol.PortRef
	_ = json.Unmarshal(req.Params, &p)
	err := s.owned(p.Session)
	var tcp net.Conn
	if err == nil {
		if tcp, err = net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(p.Port)); err != nil {
			err = fault.New(fault.Unavailable, "fake", "nothing listens")
		}
	}
	if err := s.reply(req.ID, struct{}{}, err); err != nil || tcp == nil {
		return err
	}
	defer tcp.Close()
	go func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := tcp.Read(buf)
			fr := frame.Frame{Type: frame.Data, Body: buf[:n]}
			if err == io.EOF {
				fr.Flags = frame.FlagEnd
			} else if err != nil {
				_ = s.l.Close()
				return
			}
			if s.l.Send(fr) != nil || err != nil {
				tcp.(*net.TCPConn).CloseRead()
				return
			}
		}
	}()
	for {
		fr, err := s.l.Next()
		if err != nil {
			return err
		}
		// When the program accepts no more bytes, its answer may already be on the way.
		_, _ = tcp.Write(fr.Body)
		if fr.Flags&frame.FlagEnd != 0 {
			_ = tcp.(*net.TCPConn).CloseWrite()
		}
	}
}

func (s *fakeLink) upload(ref protocol.FileRef) (any, error) {
	s.f.change(func() { s.f.uploads++ })
	var kept []byte
	var size int64
	for {
		fr, err := s.l.Next()
		if err != nil {
			s.f.change(func() { s.f.aborted++ })
			return nil, io.EOF
		}
		size += int64(len(fr.Body))
		if ref.Path == "full" && size > 100_000 {
			return nil, fault.New(fault.DiskFull, "fake", "no space left")
		}
		if ref.Path != "sink" {
			kept = append(kept, fr.Body...)
		}
		if fr.Flags&frame.FlagEnd != 0 {
			break
		}
	}
	s.f.change(func() { s.f.files[ref.Session+"/"+ref.Path] = kept })
	return protocol.File{Path: ref.Path, Size: size, Mode: 0o644}, nil
}

// filePart is the number of bytes of a file in one Data frame.
const filePart = 64 << 10

// download sends a file. "source:N" is N zero bytes; "cut" ends in the middle.
func (s *fakeLink) download(req protocol.Request, ref protocol.FileRef) error {
	id := req.ID
	buf := make([]byte, filePart)
	if n, ok := strings.CutPrefix(ref.Path, "source:"); ok || ref.Path == "cut" {
		size, _ := strconv.ParseInt(n, 10, 64)
		if ref.Path == "cut" {
			size = 1 << 20
		}
		_ = s.reply(id, protocol.FilePart{
			File:   protocol.File{Path: ref.Path, Size: size},
			Length: size,
		}, nil)
		for left := size; ; {
			n := min(left, int64(len(buf)))
			left -= n
			if ref.Path == "cut" && left < size/2 {
				return io.EOF
			}
			fr := frame.Frame{Type: frame.Data, Body: buf[:n]}
			if left == 0 {
				fr.Flags = frame.FlagEnd
			}
			if s.l.Send(fr) != nil || left == 0 {
				return io.EOF
			}
		}
	}
	s.f.mu.Lock()
	b, ok := s.f.files[ref.Session+"/"+ref.Path]
	s.f.mu.Unlock()
	if !ok {
		return fault.New(fault.NotFound, "fake", "no file")
	}
	var p protocol.FileRead
	_ = json.Unmarshal(req.Params, &p)
	part := protocol.FilePart{File: protocol.File{
		Path: ref.Path, Size: int64(len(b)), Mode: 0o644,
		ModifiedMS: 1000, ETag: etagFor(b),
	}}
	if p.IfRange == "" || p.IfRange == part.ETag {
		if part.Offset = p.Offset; p.Offset < 0 {
			part.Offset = max(0, part.Size+p.Offset)
		}
		b = b[min(part.Offset, part.Size):]
		if p.Length > 0 {
			b = b[:min(p.Length, int64(len(b)))]
		}
	}
	part.Length = int64(len(b))
	_ = s.reply(id, part, nil)
	_ = s.l.Send(frame.Frame{Type: frame.Data, Flags: frame.FlagEnd, Body: b})
	return io.EOF
}

// execute runs a script instead of code: words separated by semicolons.
func (s *fakeLink) execute(wg *sync.WaitGroup, req protocol.Request) {
	var p protocol.Execute
	_ = json.Unmarshal(req.Params, &p)
	s.cell++
	cell := s.cell
	msg := func(typ string, content any) frame.Record {
		c, _ := json.Marshal(content)
		b, _ := json.Marshal(message.Message{Type: typ, Content: c})
		return frame.Record{Kind: frame.KindMessage, Cell: cell, Payload: b}
	}
	out := func(text string) frame.Record {
		return frame.Record{Kind: frame.KindStdout, Cell: cell, Payload: []byte(text)}
	}
	// The first record comes before the reply, which the protocol allows.
	_ = s.records(req.Ch, msg(message.ExecuteInputType,
		message.ExecuteInput{Key: p.Key, Code: p.Code}))
	_ = s.reply(req.ID, protocol.Queued{Cell: cell}, nil)
	wg.Add(1)
	go func() {
		defer wg.Done()
		reply := message.ExecuteReply{Key: p.Key, Status: "ok", Millis: 1.5}
		for _, word := range strings.Split(p.Code, ";") {
			verb, arg, _ := strings.Cut(word, ":")
			switch verb {
			case "print":
				_ = s.records(req.Ch, out(arg))
			case "stderr":
				_ = s.records(req.Ch, frame.Record{
					Kind: frame.KindStderr, Cell: cell,
					Payload: []byte(arg),
				})
			case "foreign":
				_ = s.records(req.Ch, frame.Record{
					Kind: frame.KindStdout, Cell: cell + 7,
					Payload: []byte("not yours"),
				})
			case "split":
				_ = s.records(req.Ch, out("gr\xc3"), out("\xbc\xe2\x82"),
					out("\xac \xff \xf0\x9f\x98"))
			case "display":
				_ = s.records(req.Ch,
					msg(message.DisplayDataType,
						message.Bundle{
							Data: map[string]json.RawMessage{
								"text/html": json.RawMessage(`"<b>x</b>"`),
							},
						}))
			case "result":
				_ = s.records(req.Ch,
					msg(message.ExecuteResultType,
						message.Bundle{
							Data: map[string]json.RawMessage{
								"text/plain": json.RawMessage(`"42"`),
							},
							Count: 3,
						}))
			case "error":
				_ = s.records(req.Ch,
					msg(message.ErrorType, message.Error{
						EName: "ValueError", EValue: arg,
						Traceback: []string{"line 1"},
					}))
				reply.Status, reply.EName = "error", "ValueError"
			case "exit":
				n, _ := strconv.Atoi(arg)
				reply.ExitCode = &n
			case "input":
				_ = s.records(req.Ch,
					msg(message.InputRequestType, message.InputRequest{Prompt: "?"}))
				in := <-s.f.inputs
				_ = s.records(req.Ch, out(fmt.Sprintf("[%s %v]", in.Value, in.EOF)))
			case "flood":
				n, _ := strconv.ParseInt(arg, 10, 64)
				part := []byte(strings.Repeat("0123456789abcdef", 2048))
				for ; n > 0; n -= int64(len(part)) {
					s.mu.Lock()
					for s.offset-s.acked > protocol.DefaultWindow && !s.stopped {
						s.cond.Wait()
					}
					stopped := s.stopped
					s.mu.Unlock()
					if stopped ||
						s.records(req.Ch, frame.Record{
							Kind: frame.KindStdout, Cell: cell,
							Payload: part[:min(n, int64(len(part)))],
						}) != nil {
						break
					}
				}
			case "flood-unchecked":
				part := []byte(strings.Repeat("x", 60<<10))
				for s.records(req.Ch, frame.Record{
					Kind: frame.KindStdout, Cell: cell,
					Payload: part,
				}) == nil {
				}
				return
			case "loop":
				s.mu.Lock()
				for !s.stopped {
					s.cond.Wait()
				}
				s.mu.Unlock()
				reply.Status = "error"
			case "die":
				_ = s.records(req.Ch,
					frame.Record{
						Kind:    frame.KindExit,
						Payload: []byte(`{"code":137,"reason":"memory"}`),
					})
				return
			case "lost":
				params, _ := json.Marshal(protocol.Lost{Reason: "memory"})
				b, _ := json.Marshal(protocol.Reply{
					Event: protocol.EventLost, Ch: req.Ch,
					Params: params,
				})
				_ = s.l.Send(frame.Frame{Type: frame.Control, Body: b})
				return
			case "hang": // ignores the interrupt, as a loop in native code does
				return
			}
		}
		_ = s.records(req.Ch, msg(message.ExecuteReplyType, reply))
	}()
}

// mortal is a Node that delays its answers for a long time until it is gone. Then it fails at once.
type mortal struct {
	c    *noderpc.Client
	gone context.Context
}

func (m mortal) Open(ctx context.Context, who noderpc.Principal) (Link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.gone, cancel)()
	return Remote(m.c).Open(ctx, who)
}

func (m mortal) Call(ctx context.Context, who noderpc.Principal, op string,
	params, result any,
) error {
	l, err := m.Open(ctx, who)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	return l.(*noderpc.Link).Call(ctx, op, params, result)
}

// world is a gateway on a real port in front of a fake node on a real socket.
type world struct {
	t    testing.TB
	g    *Gateway
	fake *fakeNode
	addr string
	tls  string       // the address with TLS, if the configuration has certificates
	stop func() error // shuts the gateway down and waits
	node func()       // ends the node
	log  *safeBuffer
}

type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, fake: newFake(), log: &safeBuffer{}}
	path := filepath.Join(t.TempDir(), "n.sock")
	var err error
	if w.fake.keys, err = tenant.Open(local.NewKeyTableStore(filepath.Join(t.TempDir(),
		"tenants.json"))); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	nctx, ncancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- noderpc.Serve(nctx, ln, w.fake, nil) }()
	client := noderpc.NewClient(noderpc.Unix(path),
		noderpc.ClientOptions{ConnectTimeout: 20 * time.Second})
	gone, leave := context.WithCancel(context.Background())
	cfg := Config{Version: "test", Tokens: testTokens()}
	if change != nil {
		change(&cfg)
	}
	w.g, err = New(cfg, mortal{client, gone}, slog.New(slog.NewTextHandler(w.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = tcp.Addr().String()
	var secure []net.Listener
	if len(cfg.Certificates) > 0 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w.tls, secure = ln.Addr().String(), []net.Listener{ln}
	}
	gctx, gcancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.g.Serve(gctx, tcp, secure...) }()
	w.stop = sync.OnceValue(func() error { gcancel(); return <-done })
	w.node = sync.OnceFunc(func() { ncancel(); <-served; leave() })
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = client.Close()
		w.node()
	})
	return w
}

// file returns the content of a file on the node.
func (w *world) file(path string) (string, bool) {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	b, ok := w.fake.files[path]
	return string(b), ok
}

// session creates a session of tenant t1.
func (w *world) session() string {
	id := "fixed"
	w.fake.change(func() { w.fake.sessions[id] = "t1" })
	return id
}
