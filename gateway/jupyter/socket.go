package jupyter

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/gateway/jupyter/channels"
	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxMessage is the largest message of a client, in bytes.
	maxMessage = 16 << 20
	// maxSockets is the largest number of WebSockets of a principal.
	maxSockets = 256
	// maxPositions is how many positions of clients that have gone are kept, keepPosition how long.
	maxPositions = 1024
	keepPosition = 15 * time.Minute
	// maxKeptCells is the largest size of the cells in these positions, in bytes.
	maxKeptCells = 32 << 20
	// confirmEvery is the shortest time between two pings that confirm output.
	confirmEvery = 100 * time.Millisecond
	// readBuffer and writeBuffer are the buffers of a WebSocket, in bytes.
	readBuffer, writeBuffer = 256, 512
)

// sockets counts the open WebSockets, and keeps the positions of clients that have gone.
type sockets struct {
	shares *tenantlimit.Shares
	full   func() // counts a refusal

	mu        sync.Mutex     // guards all fields below; leaf
	open      map[string]int // by kernel, and by principal
	positions map[string]resume
	kept      int // the size of the cells in positions
}

// resume is the position at which a client continues.
type resume struct {
	at    channels.Position
	until time.Time
}

func (s *sockets) count(kernel string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[kernel]
}

// join counts a WebSocket until leave is called. Errors: Exhausted.
func (s *sockets) join(who noderpc.Principal, kernel string) (leave func(), err error) {
	owner := "\x00" + who.Tenant + "\x00" + who.Subject
	release, err := s.shares.Reserve("jupyter.socket", who.Tenant)
	if err != nil {
		s.full()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[owner] >= maxSockets {
		release()
		s.full()
		return nil, fault.New(fault.Exhausted, "jupyter.socket",
			"too many connections are open with these credentials")
	}
	s.open[owner]++
	s.open[kernel]++
	return func() {
		release()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, key := range []string{owner, kernel} {
			if s.open[key]--; s.open[key] <= 0 {
				delete(s.open, key)
			}
		}
	}, nil
}

// takePosition removes the position of a client and returns it.
func (s *sockets) takePosition(client string) channels.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked(client)
}

func (s *sockets) takeLocked(client string) channels.Position {
	r := s.positions[client]
	delete(s.positions, client)
	s.kept -= r.at.Size()
	if time.Now().After(r.until) {
		return channels.Position{}
	}
	return r.at
}

// putPosition keeps the position of a client, with the cells of another one that it has. When there
// are too many, those that have expired go, or else this one.
func (s *sockets) putPosition(client string, at channels.Position) {
	if !at.Kept() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at = at.Join(s.takeLocked(client))
	if len(s.positions) >= maxPositions || s.kept+at.Size() > maxKeptCells {
		for key, r := range s.positions {
			if time.Now().After(r.until) {
				s.takeLocked(key)
			}
		}
	}
	if s.kept+at.Size() > maxKeptCells {
		at = at.WithoutCells()
	}
	if len(s.positions) < maxPositions {
		s.positions[client] = resume{at, time.Now().Add(keepPosition)}
		s.kept += at.Size()
	}
}

// kernelSocket serves the channels of a kernel. It answers the handshake once it is attached, so
// that an unknown kernel is a 404. It returns before the connection ends: the goroutine of the handler
// has a large stack, the request holds buffers, and most connections are idle.
func (s *Surface) kernelSocket(w http.ResponseWriter, r *http.Request) error {
	if err := checkUpgrade(r); err != nil {
		return err
	}
	p, id := placed(r), r.PathValue("id")
	session, channel, ok := parseID(id)
	if !ok || p.session != "" && p.session != session {
		return noKernel()
	}
	leave, err := s.sockets.join(p.who, id)
	if err != nil {
		return err
	}
	o := channels.Options{
		Session: session, Channel: channel, ID: id, Client: r.URL.Query().Get("session_id"),
		V1: slices.Contains(offered(r), wire.V1), Buffers: &s.buffers,
	}
	key := p.who.Tenant + "\x00" + id + "\x00" + o.Client
	o.Resume = s.sockets.takePosition(key)
	c, err := s.attachSocket(r, o)
	if err != nil {
		leave()
		s.sockets.putPosition(key, o.Resume) // the client tries again
		return err
	}
	ws, err := accept(w, r, o.V1)
	if err != nil {
		leave()
		s.sockets.putPosition(key, o.Resume)
		channels.Abandon(c)
		return nil // the handshake is answered
	}
	t := s.newSocket(ws, p.who)
	serve := func() {
		defer leave()
		at, err := c.Serve(t)
		if o.Client == "" { // clients without an id share the key
			at = at.CellsOnly()
		}
		s.sockets.putPosition(key, at) // clients connect again at once
		t.close(err)
	}
	if !s.cfg.Go(serve) {
		leave()
		channels.Abandon(c)
		t.close(fault.New(fault.Restarting, "jupyter.socket", "the server restarts"))
	}
	return nil
}

func (s *Surface) attachSocket(r *http.Request, o channels.Options) (*channels.Conn, error) {
	ctx, cancel := s.bounded(r)
	defer cancel()
	link, err := s.cfg.Node.Open(ctx, placed(r).who)
	if err != nil {
		return nil, err
	}
	return channels.Attach(ctx, link, o)
}

// checkUpgrade rejects a request that is not a WebSocket handshake.
func checkUpgrade(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return fault.New(fault.Malformed, "jupyter.socket", "this path takes a WebSocket handshake")
	}
	return nil
}

// offered returns the subprotocols of a handshake.
func offered(r *http.Request) []string {
	var all []string
	for _, v := range r.Header.Values("Sec-Websocket-Protocol") {
		for t := range strings.SplitSeq(v, ",") {
			all = append(all, strings.TrimSpace(t))
		}
	}
	return all
}

// accept answers the handshake. The gateway has checked the origin.
func accept(w http.ResponseWriter, r *http.Request, v1 bool) (*websocket.Conn, error) {
	o := &websocket.AcceptOptions{
		InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	}
	if v1 {
		o.Subprotocols = []string{wire.V1}
	}
	ws, err := websocket.Accept(lean{w}, r, o)
	if err == nil {
		ws.SetReadLimit(maxMessage)
	}
	return ws, err
}

// lean is a response whose connection gets small buffers when it is taken over. Larger reads and
// writes bypass them.
type lean struct{ http.ResponseWriter }

// Hijack takes the connection over.
func (w lean) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early := make([]byte, buffered.Reader.Buffered())
	_, _ = buffered.Reader.Read(early) // it is in the buffer
	if len(early) > 0 {
		conn = &resumed{Conn: conn, early: early}
	}
	return conn, bufio.NewReadWriter(bufio.NewReaderSize(conn, readBuffer),
		bufio.NewWriterSize(conn, writeBuffer)), nil
}

// Unwrap returns the response below.
func (w lean) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// resumed is a connection of which a part was read before.
type resumed struct {
	net.Conn
	early []byte
}

func (c *resumed) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// socket is a WebSocket of a client.
type socket struct {
	s   *Surface
	ws  *websocket.Conn
	who noderpc.Principal
	// code is the close code of an end that this side has decided; 0 means none.
	code atomic.Int64
	stop []func() bool

	mu         sync.Mutex // guards all fields below; leaf
	pinger     *time.Timer
	ended      bool
	confirming bool
	waiting    func() // the next confirmation
}

func (s *Surface) newSocket(ws *websocket.Conn, who noderpc.Principal) *socket {
	t := &socket{s: s, ws: ws, who: who}
	t.stop = append(t.stop, context.AfterFunc(s.cfg.Leaving, func() {
		t.closeWith(websocket.StatusServiceRestart, "the server restarts")
	}))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pinger = time.AfterFunc(s.cfg.Ping, t.ping)
	return t
}

// Read returns the next message.
func (t *socket) Read() (data []byte, isBinary bool, err error) {
	kind, data, err := t.ws.Read(context.Background())
	return data, kind == websocket.MessageBinary, err
}

// Write sends a message.
func (t *socket) Write(data []byte, isBinary bool) error {
	kind := websocket.MessageText
	if isBinary {
		kind = websocket.MessageBinary
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.s.cfg.Write)
	defer cancel()
	return t.ws.Write(ctx, kind, data)
}

// Confirm calls got once the client has answered a ping that follows what was written. One ping is
// under way at a time.
func (t *socket) Confirm(got func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = got
	if !t.confirming && !t.ended {
		t.confirming = true
		go t.confirm()
	}
}

func (t *socket) confirm() {
	for {
		t.mu.Lock()
		got := t.waiting
		t.waiting = nil
		if got == nil || t.ended {
			t.confirming = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), t.s.cfg.Pong)
		err := t.ws.Ping(ctx)
		cancel()
		if err == nil {
			got()
		}
		timer := time.NewTimer(confirmEvery)
		<-timer.C
	}
}

// ping checks that the client still answers and its credentials are valid.
func (t *socket) ping() {
	if !t.s.cfg.Auth.Valid(t.who) {
		t.closeWith(websocket.StatusPolicyViolation, "the credentials have ended")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.s.cfg.Pong)
	defer cancel()
	if t.ws.Ping(ctx) != nil {
		_ = t.ws.CloseNow() // the connection is half open
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.pinger.Reset(t.s.cfg.Ping)
	}
}

// closeWith closes the WebSocket with a code.
func (t *socket) closeWith(code websocket.StatusCode, why string) {
	if t.code.CompareAndSwap(0, int64(code)) {
		_ = t.ws.Close(code, why) // a client that has gone needs none
	}
}

// close closes the WebSocket with the code for an error. After 1000 and 1001 clients do not connect
// again, so 1000 is for kernels that have ended, and 1001 is never sent.
func (t *socket) close(err error) {
	t.mu.Lock()
	t.ended = true
	t.pinger.Stop()
	t.mu.Unlock()
	for _, stop := range t.stop {
		stop()
	}
	switch {
	case websocket.CloseStatus(err) != -1:
		_ = t.ws.CloseNow() // the client has closed it
	case fault.Is(err, fault.KernelDied), fault.Is(err, fault.SandboxLost):
		t.closeWith(websocket.StatusNormalClosure, "the kernel has ended")
	case fault.Is(err, fault.Malformed):
		t.closeWith(websocket.StatusProtocolError, "the message is malformed")
	default:
		t.closeWith(websocket.StatusServiceRestart, "try again")
	}
	_ = t.ws.CloseNow() // it may be closed
}
