// Package agent is the first process of a sandbox. It starts kernels and
// processes, passes their input and output as frames over its own standard
// input and output, delivers signals, collects processes that have ended, and
// reads and writes users' files, so that the host never does.
package agent

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/agent/files"
	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/stream"
)

// Limits of the agent. Over one of them a request fails with Exhausted and is
// counted in Stats.Refused.
const (
	maxJobs  = 64       // starts and closes at once
	maxQueue = 16 << 20 // bytes that wait to go into a kernel
	maxWrite = 64 << 10 // bytes of output after which a channel writes them
)

// Config configures a Server. The zero value of each field means the default
// given with it.
type Config struct {
	Langs string // folder of the languages' folders: /opt/sandgate/langs
	Home  string // the user's home: /home/user
	User  string // the user's name: user
	UID   int    // 1000
	GID   int    // 1000
	// Path is the PATH of started processes; the default is Debian's.
	Path string
	// Env is the environment of the image, as NAME=value. Started processes have it too.
	Env []string
	// ReadyTimeout is how long a driver may take until it is ready: 60 s.
	ReadyTimeout time.Duration
	// KillGrace is the time from SIGTERM to SIGKILL at a close: 2 s.
	KillGrace time.Duration
	// ReseedTimeout is how long the kernels may take to reseed: 5 s.
	ReseedTimeout time.Duration
	// MachineID is the file that holds the machine's id: /etc/machine-id.
	MachineID string
	// SetHostname is syscall.Sethostname.
	SetHostname func(string) error
}

func (c Config) withDefaults() Config {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.Langs, "/opt/sandgate/langs")
	def(&c.Home, wire.Home)
	def(&c.User, "user")
	def(&c.MachineID, "/etc/machine-id")
	def(&c.Path, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	if c.UID == 0 {
		c.UID = 1000
	}
	if c.GID == 0 {
		c.GID = 1000
	}
	if c.ReadyTimeout == 0 {
		c.ReadyTimeout = time.Minute
	}
	if c.KillGrace == 0 {
		c.KillGrace = 2 * time.Second
	}
	if c.ReseedTimeout == 0 {
		c.ReseedTimeout = 5 * time.Second
	}
	if c.SetHostname == nil {
		c.SetHostname = func(name string) error { return syscall.Sethostname([]byte(name)) }
	}
	return c
}

// Server is the agent's end of the wire.
//
// One goroutine reads the wire and waits for nothing else. Operations that may
// take longer run in jobs, and each channel has one loop. Lock order:
// Server.mu, channel.mu, stdin.mu, hostWriter.lock. process.Reaper.mu is taken alone or
// before channel.mu.
type Server struct {
	cfg    Config
	host   hostWriter
	reap   *process.Reaper
	spawn  *process.Spawner
	langs  manifests
	files  *files.Service
	egress *egressProxy

	quit chan struct{} // closed when the wire has ended
	jobs chan struct{} // one token for each job that runs
	wg   sync.WaitGroup

	mu          sync.Mutex // guards all below
	closed      bool
	channels    map[uint32]*channel
	transfers   map[uint32]*transfer
	fileOps     int               // operations on files that run
	watches     int               // watches of files
	portConns   int               // connections to ports
	egressConns int               // connections to the outside
	env         map[string]string // from the last reseed
	started     uint32            // channels so far

	stalls, malformed, stray, garbage, refused atomic.Uint64
}

// NewServer returns a server. Its process collects all children with wait4, so
// nothing else in the process may use os/exec. See
// process.Prepare.
func NewServer(cfg Config) *Server {
	s := &Server{
		cfg:       cfg.withDefaults(),
		quit:      make(chan struct{}),
		jobs:      make(chan struct{}, maxJobs),
		channels:  map[uint32]*channel{},
		transfers: map[uint32]*transfer{},
	}
	s.langs = readManifests(s.cfg.Langs)
	s.reap = process.NewReaper()
	s.spawn = process.NewSpawner(s.user(), s.reap, s.quit, &s.refused)
	s.files = files.New(files.Config{
		Home: s.cfg.Home, UID: s.cfg.UID, GID: s.cfg.GID,
		Closed: s.isClosed,
	})
	s.egress = &egressProxy{s: s}
	return s
}

// user returns the user of all processes.
func (s *Server) user() process.User {
	return process.User{
		UID: s.cfg.UID, GID: s.cfg.GID, Name: s.cfg.User, Home: s.cfg.Home,
		Path: s.cfg.Path, Env: s.cfg.Env,
	}
}

// Serve speaks the protocol until r ends. It then kills all processes that the
// agent has started or inherited, and drops unfinished files. It returns an
// error only for malformed input. It may be called once.
func (s *Server) Serve(r io.Reader, w io.Writer) error {
	s.host.w = w
	go s.reap.Run(s.quit)
	go s.spawn.Run()
	defer s.shutdown()
	s.send(wire.Response{
		Event: "hello", Version: wire.Version, Revision: wire.Revision,
	})
	frames := frame.NewReader(r, 0)
	for {
		f, err := frames.Next()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil // the host may end at any time, also within a frame
		}
		if err != nil {
			return fault.Wrap(fault.Malformed, "agent.serve", err)
		}
		s.handle(f)
	}
}

func (s *Server) shutdown() {
	s.mu.Lock()
	s.closed = true
	live := make([]*channel, 0, len(s.channels))
	for _, c := range s.channels {
		live = append(live, c)
	}
	for _, t := range s.transfers {
		t.abort()
	}
	if s.egress.listener != nil {
		s.egress.listener.Close()
	}
	s.mu.Unlock()
	s.host.close()
	s.files.Close()
	for _, c := range live {
		c.setReason(wire.ReasonKilled)
		c.win.setAcked(ackAll) // the host takes no output any more
	}
	// SIGKILL ends all processes at once, except one that hangs in the kernel. The
	// limit is for that one.
	process.KillAll(5 * time.Second)
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
	}
	close(s.quit)
}

// isClosed reports whether the wire has ended.
func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// handle takes one frame from the host.
func (s *Server) handle(f frame.Frame) {
	switch f.Type {
	case frame.Control:
		var r wire.Request
		if json.Unmarshal(f.Body, &r) != nil || r.Op == "" {
			s.malformed.Add(1)
			return
		}
		s.request(r)
	case frame.Input:
		s.input(f)
	case frame.Data:
		s.data(f)
	case frame.Ack:
		s.ack(f)
	default:
		s.malformed.Add(1)
	}
}

// request carries out one request, or starts a job that does.
func (s *Server) request(r wire.Request) {
	switch r.Op {
	case wire.OpPing:
		s.respond(r.ID, struct{}{}, nil)
	case wire.OpStats:
		s.respond(r.ID, s.stats(), nil)
	case wire.OpKernelStart:
		s.kernelStart(r)
	case wire.OpProcessStart:
		s.processStart(r)
	case wire.OpTerminalStart:
		s.terminalStart(r)
	case wire.OpKernelRequest, wire.OpInterrupt, wire.OpSignal, wire.OpResize, wire.OpRunning:
		c, err := s.find(r)
		if err != nil {
			s.respond(r.ID, nil, err)
			return
		}
		c.handle(r)
	case wire.OpClose:
		s.mu.Lock()
		c := s.channels[r.Channel] // it may have ended
		s.mu.Unlock()
		if c == nil {
			s.respond(r.ID, nil, fault.New(fault.NotFound, "agent.close", "there is no channel %d",
				r.Channel))
			return
		}
		s.job(r.ID, func() { s.respond(r.ID, struct{}{}, c.close()) })
	case wire.OpFileWrite, wire.OpFileRead, wire.OpFileStat, wire.OpFileList, wire.OpFileMkdir,
		wire.OpFileMove, wire.OpFileCopy,
		wire.OpFileRemove, wire.OpFileLink, wire.OpFileWatch, wire.OpFileChanges,
		wire.OpTreeRead, wire.OpTreeWrite:
		s.startFile(r)
	case wire.OpProcessList:
		s.job(r.ID, func() { s.respond(r.ID, s.listProcesses(), nil) })
	case wire.OpProcessSignal:
		var q wire.SignalProcess
		if err := params(r, &q); err != nil {
			s.respond(r.ID, nil, err)
			return
		}
		s.job(r.ID, func() { s.respond(r.ID, struct{}{}, s.signalProcess(q)) })
	case wire.OpPortDial:
		s.portDial(r)
	case wire.OpPortList:
		s.job(r.ID, func() { s.respond(r.ID, s.listening(), nil) })
	case wire.OpEgressAnswer:
		s.egress.handleAnswer(r)
	case wire.OpReseed:
		var q wire.Reseed
		if err := params(r, &q); err != nil {
			s.respond(r.ID, nil, err)
			return
		}
		s.job(r.ID, func() { s.respond(r.ID, struct{}{}, s.reseed(q)) })
	default:
		s.respond(r.ID, nil, fault.New(fault.Unsupported, "agent.request",
			"there is no operation %q", r.Op))
	}
}

// params decodes a request's parameters.
func params(r wire.Request, v any) error {
	if len(r.Params) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Params, v); err != nil {
		return &fault.Error{
			Kind: fault.InvalidArgument, Op: "agent." + r.Op, Field: "params",
			Message: "the parameters could not be read", Err: err,
		}
	}
	return nil
}

// job runs f in a goroutine of its own, or refuses it.
func (s *Server) job(id uint64, f func()) bool {
	select {
	case s.jobs <- struct{}{}:
	default:
		s.refused.Add(1)
		s.respond(id, nil, fault.New(fault.Exhausted, "agent.request",
			"%d starts and closes are under way", maxJobs))
		return false
	}
	s.wg.Add(1)
	go func() {
		defer func() { <-s.jobs; s.wg.Done() }()
		f()
	}()
	return true
}

// find returns the request's channel if it runs.
func (s *Server) find(r wire.Request) (*channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[r.Channel]
	if c == nil || c.isOver() {
		return nil, fault.New(fault.NotFound, "agent."+r.Op, "channel %d does not run", r.Channel)
	}
	return c, nil
}

// reseed gives the sandbox an identity of its own. Each kernel gets a seed that
// is derived from the given one, so that two kernels draw different random
// numbers.
func (s *Server) reseed(q wire.Reseed) error {
	const op = "agent.reseed"
	if q.Hostname != "" {
		if len(q.Hostname) > 64 {
			return fault.Invalid(op, "hostname", "a host name has at most 64 bytes")
		}
		if err := s.cfg.SetHostname(q.Hostname); err != nil {
			return &fault.Error{
				Kind: fault.Host, Op: op, Message: "the host name could not be set",
				Err: err,
			}
		}
	}
	if err := process.CheckEnv(op, q.Env); err != nil {
		return err
	}
	if q.Proxy == wire.NoProxy {
		s.egress.close()
	} else if q.Proxy != 0 {
		if err := s.egress.open(q.Proxy); err != nil {
			return err
		}
	}
	s.files.Reseed()
	s.mu.Lock()
	s.env = q.Env
	var kernels []*channel
	for _, c := range s.channels {
		if c.manifest != nil && !c.isOver() {
			kernels = append(kernels, c)
		}
	}
	// In a copy of a sandbox nothing serves connections to the outside.
	for _, t := range s.transfers {
		if t.egress {
			t.abort()
		}
	}
	s.mu.Unlock()
	if err := s.newMachineID(q.Seed); err != nil {
		return &fault.Error{
			Kind: fault.Host, Op: op,
			Message: "the machine's id could not be written", Err: err,
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.ReseedTimeout)
	defer cancel()
	waits := make([]chan error, len(kernels))
	for i, c := range kernels {
		// In a copy of a session a cell may be running. Its kernel gets the request
		// when the cell has ended, and reseed does not wait for it.
		busy := c.executing()
		waits[i] = c.requestOwn(kernel.Request{
			Op: "reseed", Seed: deriveSeed(q.Seed, c.id),
			Env: q.Env,
		})
		if busy {
			waits[i] = nil
		}
	}
	for i, w := range waits {
		if w == nil {
			continue
		}
		select {
		case err := <-w:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return fault.New(fault.DeadlineExceeded, op,
				"the kernel of channel %d did not reseed in %s", kernels[i].id, s.cfg.ReseedTimeout)
		}
	}
	return nil
}

// newMachineID writes a new machine id, in the format of machine-id(5). The
// image has none.
func (s *Server) newMachineID(seed string) error {
	return os.WriteFile(s.cfg.MachineID, []byte(deriveSeed(seed, ^uint32(0))[:32]+"\n"), 0o644)
}

func (s *Server) stats() wire.Stats {
	s.mu.Lock()
	n := 0
	for _, c := range s.channels {
		if !c.isOver() {
			n++
		}
	}
	t := s.fileOps + s.watches + s.portConns + s.egressConns
	s.mu.Unlock()
	reaped, orphans := s.reap.Counts()
	return wire.Stats{
		Channels: n, Transfers: t, Reaped: reaped, Orphans: orphans,
		Stalls: s.stalls.Load(), Malformed: s.malformed.Load(), Stray: s.stray.Load(),
		Garbage: s.garbage.Load(), Refused: s.refused.Load(),
	}
}

// respond answers a request. Requests with ID 0 get no answer.
func (s *Server) respond(id uint64, result any, err error) {
	if id == 0 {
		return
	}
	r := wire.Response{ID: id}
	if err != nil {
		r.Error, _ = json.Marshal(fault.PublicOf(err))
	} else if r.Result, err = json.Marshal(result); err != nil {
		r.Result, _ = nil, err
		r.Error, _ = json.Marshal(fault.Public{
			Kind:    fault.Internal,
			Message: "the result could not be written",
		})
	}
	s.send(r)
}

// send writes a response or an event.
func (s *Server) send(r wire.Response) {
	body, err := json.Marshal(r)
	if err != nil || len(body) > frame.MaxBody {
		body, _ = json.Marshal(wire.Response{
			ID:    r.ID,
			Error: json.RawMessage(`{"kind":"too_large","message":"the answer is over 8 MiB"}`),
		})
	}
	s.host.write(frame.Append(make([]byte, 0, frame.HeaderSize+len(body)),
		frame.Frame{Type: frame.Control, Body: body}))
}

// hostWriter writes to the host, with one system call for each write. Small
// writes overtake large ones that wait.
type hostWriter struct {
	lock stream.WriteLock // guards the fields below, and the order on the wire
	w    io.Writer
	err  error
}

// write sends whole frames. After an error, and after close, it does nothing:
// the host is gone, and Serve notices that as well.
func (w *hostWriter) write(frames []byte) {
	w.lock.Lock(len(frames))
	defer w.lock.Unlock(len(frames))
	if w.err == nil && len(frames) > 0 {
		_, w.err = w.w.Write(frames)
	}
}

func (w *hostWriter) close() {
	w.lock.Lock(0)
	defer w.lock.Unlock(0)
	if w.err == nil {
		w.err = io.ErrClosedPipe
	}
}

// listProcesses describes the processes of the sandbox.
func (s *Server) listProcesses() wire.Processes {
	channels := map[uint32]uint32{}
	s.mu.Lock()
	for id, c := range s.channels {
		channels[c.group] = id
	}
	s.mu.Unlock()
	return process.List(s.user(), channels)
}

// signalProcess sends a signal to a process of the user.
func (s *Server) signalProcess(q wire.SignalProcess) error {
	sig, ok := signalByName(q.Signal)
	if !ok {
		return fault.Invalid("agent.process.signal", "signal", "there is no signal %q to send",
			q.Signal)
	}
	return process.Signal(s.cfg.UID, q.PID, sig)
}
