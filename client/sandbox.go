package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Never as a length of time means that something never happens.
const Never time.Duration = -1

// SandboxOptions describe a sandbox. The zero value means a new session with Python.
type SandboxOptions struct {
	// Name is unique in the tenant. A session of that name is used if there is one.
	Name string
	// Language is the language that is warm at once; empty means python.
	Language string
	// Template is the template that it is made from, Snapshot the id or name of a snapshot that it
	// starts from.
	Template string
	Snapshot string
	// Env is the environment of kernels and programs.
	Env map[string]string
	// Labels are texts by which sessions are found and usage is summed up.
	Labels map[string]string
	// Limits bound memory, CPU and others.
	Limits *protocol.Limits
	// Network says what it may reach: nothing if nil. Allow returns a value for some hosts.
	Network *protocol.Network
	// Volumes are its volumes.
	Volumes []protocol.Mount
	// Services are commands that the server keeps running. The sandbox is returned when they are
	// ready, unless NoWait is set.
	Services []protocol.Service
	NoWait   bool
	// Durable keeps copies on disk, so that it survives a killed server; nil means the server's
	// default.
	Durable *bool
	// Lifetime is the time until it ends, even if it works. IdlePause, IdleHibernate and IdleDelete
	// are the times without work until it is paused, hibernated and deleted. 0 means the server's
	// default, Never means never.
	Lifetime      time.Duration
	IdlePause     time.Duration
	IdleHibernate time.Duration
	IdleDelete    time.Duration
	// KeepAlive means that it is never paused, hibernated or evicted.
	KeepAlive bool
	// Keep means that Close keeps a session without a name.
	Keep bool
}

// Allow returns a network that reaches some hosts: git.example.org:22, *.example.org, or a preset
// such as python. Without hosts it reaches everything that the server allows.
func Allow(hosts ...string) *protocol.Network { return &protocol.Network{Allow: hosts} }

// Sandbox is a session: a sandbox with live kernels, files and programs. It is safe for concurrent
// use.
type Sandbox struct {
	// Files are the files of the session.
	Files *Files
	// Services are the commands that the server keeps running in the session.
	Services *Services

	client  *Client
	id      string
	keep    bool
	changes *changes

	kernelLock chan struct{} // capacity 1: held while a kernel is opened

	mu      sync.Mutex // guards the fields below
	info    protocol.Session
	kernels map[string]*Kernel
	deleted bool
}

// Sandbox returns a new sandbox or, with a name, the session of that name, which it creates if there
// is none.
func (c *Client) Sandbox(ctx context.Context, o SandboxOptions) (*Sandbox, error) {
	p := protocol.SessionCreate{
		Language: o.Language, Name: o.Name, Env: o.Env, LifetimeSeconds: seconds(o.Lifetime),
		Template: o.Template, Limits: o.Limits, IdlePauseSeconds: seconds(o.IdlePause),
		IdleHibernateSeconds: seconds(o.IdleHibernate), IdleDeleteSeconds: seconds(o.IdleDelete),
		KeepAlive: o.KeepAlive, Snapshot: o.Snapshot, Durable: o.Durable, Volumes: o.Volumes,
		Network: o.Network, Services: o.Services, Labels: o.Labels,
		WaitReady: len(o.Services) > 0 && !o.NoWait,
	}
	if o.Name != "" {
		var info protocol.Ensured
		if err := c.Call(ctx, protocol.OpSessionEnsure, p, &info); err != nil {
			return nil, err
		}
		return c.sandbox(info.Session, true), nil
	}
	var info protocol.Session
	if err := c.Call(ctx, protocol.OpSessionCreate, p, &info); err != nil {
		return nil, err
	}
	return c.sandbox(info, o.Keep), nil
}

func (c *Client) sandbox(info protocol.Session, keep bool) *Sandbox {
	s := &Sandbox{
		client: c, id: info.ID, keep: keep, info: info, kernels: map[string]*Kernel{},
		kernelLock: make(chan struct{}, 1), changes: &changes{client: c, session: info.ID},
	}
	s.Files, s.Services = &Files{s}, &Services{s}
	return s
}

// GetSandbox returns a session that exists, by its id.
func (c *Client) GetSandbox(ctx context.Context, id string) (*Sandbox, error) {
	var info protocol.Session
	if err := c.Call(ctx, protocol.OpSessionGet, protocol.SessionRef{Session: id},
		&info); err != nil {
		return nil, err
	}
	return c.sandbox(info, true), nil
}

// FindSandbox returns a session that exists, by its name.
func (c *Client) FindSandbox(ctx context.Context, name string) (*Sandbox, error) {
	var info protocol.Session
	if err := c.Call(ctx, protocol.OpSessionFind, protocol.SessionName{Name: name},
		&info); err != nil {
		return nil, err
	}
	return c.sandbox(info, true), nil
}

// ID returns the session's id.
func (s *Sandbox) ID() string { return s.id }

// Name returns the session's name; empty means none.
func (s *Sandbox) Name() string { return s.Info().Name }

// State returns the last known state: running, paused, hibernated, resuming or lost.
func (s *Sandbox) State() string { return s.Info().State }

// Client returns the client that the sandbox uses.
func (s *Sandbox) Client() *Client { return s.client }

// Info returns the last known description. Refresh asks the server.
func (s *Sandbox) Info() protocol.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// Refresh reads the description from the server: state, expiry, use of memory and CPU.
func (s *Sandbox) Refresh(ctx context.Context) (protocol.Session, error) {
	return s.perform(ctx, protocol.OpSessionGet, s.ref())
}

func (s *Sandbox) ref() protocol.SessionRef { return protocol.SessionRef{Session: s.id} }

// perform performs an operation whose result is the session.
func (s *Sandbox) perform(ctx context.Context, op string, params any) (protocol.Session, error) {
	var info protocol.Session
	if err := s.client.Call(ctx, op, params, &info); err != nil {
		return info, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
	return info, nil
}

// Pause freezes the session in memory. Work in it resumes it.
func (s *Sandbox) Pause(ctx context.Context) (protocol.Session, error) {
	return s.perform(ctx, protocol.OpSessionPause, s.ref())
}

// Hibernate writes the session to disk with everything that runs in it. Work in it resumes it.
func (s *Sandbox) Hibernate(ctx context.Context) (protocol.Session, error) {
	return s.perform(ctx, protocol.OpHibernate, s.ref())
}

// Suspend is Hibernate for a session that only Resume resumes. Other work in it is a conflict until
// then.
func (s *Sandbox) Suspend(ctx context.Context) (protocol.Session, error) {
	return s.perform(ctx, protocol.OpHibernate,
		protocol.SessionHibernate{Session: s.id, Suspend: true})
}

// Resume resumes a paused, hibernated or suspended session.
func (s *Sandbox) Resume(ctx context.Context) (protocol.Session, error) {
	return s.perform(ctx, protocol.OpResume, s.ref())
}

// Update changes the session's name, labels, policy or lifetime. p.Session is not used.
func (s *Sandbox) Update(
	ctx context.Context, p protocol.SessionUpdate,
) (protocol.Session, error) {
	p.Session = s.id
	return s.perform(ctx, protocol.OpSessionUpdate, p)
}

// Keepalive lets the session count as busy for some time.
func (s *Sandbox) Keepalive(ctx context.Context, d time.Duration) (protocol.Session, error) {
	return s.perform(ctx, protocol.OpSessionKeepalive,
		protocol.SessionKeepalive{Session: s.id, Seconds: seconds(d)})
}

// ForkOptions describe copies.
type ForkOptions struct {
	// Name is the name of the copy; several get a number. Copies without a name are deleted by
	// Close.
	Name string
	// Labels replace those of the original with the same keys.
	Labels map[string]string
	// Lifetime is the time until the copies end.
	Lifetime time.Duration
}

// Fork copies the session with everything that runs in it, and returns the copies: at most 32. All
// are made, or none.
func (s *Sandbox) Fork(ctx context.Context, count int, o ...ForkOptions) ([]*Sandbox, error) {
	more := first(o)
	var forks protocol.Forks
	if err := s.client.Call(ctx, protocol.OpFork, protocol.SessionFork{
		Session: s.id, Count: count, Name: more.Name, Labels: more.Labels,
		LifetimeSeconds: seconds(more.Lifetime),
	}, &forks); err != nil {
		return nil, err
	}
	copies := make([]*Sandbox, 0, len(forks.Sessions))
	for _, info := range forks.Sessions {
		copies = append(copies, s.client.sandbox(info, more.Name != ""))
	}
	return copies, nil
}

// first returns the options of a call; without any the zero value.
func first[T any](options []T) T {
	var none T
	return slices.Concat(options, []T{none})[0]
}

// SnapshotOptions describe a snapshot.
type SnapshotOptions struct {
	// Name is unique among the caller's snapshots.
	Name string
	// Expires is the time until it is removed; 0 means never.
	Expires time.Duration
}

// Snapshot saves the present state. Sandbox with SandboxOptions.Snapshot starts from it.
func (s *Sandbox) Snapshot(
	ctx context.Context, o ...SnapshotOptions,
) (protocol.Snapshot, error) {
	more := first(o)
	var snapshot protocol.Snapshot
	err := s.client.Call(ctx, protocol.OpSnapshot, protocol.SnapshotCreate{
		Session: s.id, Name: more.Name, ExpiresSeconds: seconds(more.Expires),
	}, &snapshot)
	return snapshot, err
}

// Delete ends everything in the session and deletes it.
func (s *Sandbox) Delete(ctx context.Context) error {
	s.detach()
	err := s.client.DeleteSession(ctx, s.id)
	if err == nil {
		s.mu.Lock()
		s.deleted = true
		s.mu.Unlock()
	}
	return err
}

// closeTimeout is the longest time that Close works.
const closeTimeout = 30 * time.Second

// Close releases the sandbox. It deletes a session without a name that Client.Sandbox or Fork has
// created, unless Keep was set. Others stay.
func (s *Sandbox) Close() error {
	s.detach()
	s.mu.Lock()
	keep := s.keep || s.deleted || s.info.Name != ""
	s.mu.Unlock()
	if keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.Delete(ctx)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.SandboxLost) {
		return nil
	}
	return err
}

// detach detaches all kernels.
func (s *Sandbox) detach() {
	s.mu.Lock()
	kernels := s.kernels
	s.kernels = map[string]*Kernel{}
	s.mu.Unlock()
	for _, k := range kernels {
		_ = k.kernel.Close() // it continues; the connection may have ended
	}
}

// Channels returns the channels: kernels, processes and terminals, oldest first.
func (s *Sandbox) Channels(ctx context.Context) ([]protocol.Channel, error) {
	var list protocol.ChannelList
	err := s.client.Call(ctx, protocol.OpChannelList, s.ref(), &list)
	return list.Channels, err
}

// CloseChannel closes a channel and ends its programs.
func (s *Sandbox) CloseChannel(ctx context.Context, channel string) error {
	return s.client.Call(ctx, protocol.OpChannelClose,
		protocol.ChannelRef{Session: s.id, Channel: channel}, nil)
}

// Processes returns everything that runs in the sandbox.
func (s *Sandbox) Processes(ctx context.Context) ([]protocol.Process, error) {
	var list protocol.ProcessList
	err := s.client.Call(ctx, protocol.OpProcessList, s.ref(), &list)
	return list.Processes, err
}

// Signal sends a signal, such as SIGTERM, to one of the processes.
func (s *Sandbox) Signal(ctx context.Context, pid int, signal string) error {
	return s.client.Call(ctx, protocol.OpProcessSignal,
		protocol.ProcessSignal{Session: s.id, PID: pid, Signal: signal}, nil)
}

// open opens a channel on the WebSocket. A line for bash is run by sh if there is no bash.
func (s *Sandbox) open(
	ctx context.Context, p protocol.ChannelOpen,
) (*wire.Conn, protocol.Channel, error) {
	conn, err := s.client.connect(ctx)
	if err != nil {
		return nil, protocol.Channel{}, err
	}
	p.Session = s.id
	if p.Key == "" && p.Kind != "kernel" {
		p.Key = wire.NewKey()
	}
	ch, err := conn.OpenChannel(ctx, p)
	var refused *fault.Error
	if errors.As(err, &refused) && refused.Kind == fault.NotFound && refused.Field == "argv" &&
		len(p.Argv) > 1 && p.Argv[0] == "bash" && p.Argv[1] == "-c" {
		p.Argv = append([]string{"sh"}, p.Argv[1:]...)
		ch, err = conn.OpenChannel(ctx, p)
	}
	return conn, ch, err
}
