package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"

	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The time limits of operations, independent of the context. When an operation exceeds its limit,
// the sentry is stuck and the sandbox is killed. The limits are an order of magnitude above the
// times on a loaded machine with two cores.
const (
	createLimit     = 30 * time.Second
	startLimit      = 30 * time.Second
	restoreLimit    = 60 * time.Second
	pauseLimit      = 10 * time.Second
	checkpointLimit = 5 * time.Minute
	killLimit       = 10 * time.Second
	destroyLimit    = 30 * time.Second
)

// Boot creates a sandbox and starts its first process.
func (r *Runtime) Boot(ctx context.Context, spec Spec) (*Sandbox, error) {
	return r.launch(ctx, spec, (*Sandbox).Start)
}

// Restore creates a sandbox, mounts volumes, and restores the snapshot in dir
// into it. See Sandbox.Mount and Sandbox.Restore.
func (r *Runtime) Restore(ctx context.Context, dir string, spec Spec, how Checking,
	volumes ...Volume,
) (*Sandbox, error) {
	resolved, err := spec.resolve("sandbox.restore")
	if err != nil {
		return nil, err
	}
	if _, err := r.fits(dir, resolved); err != nil {
		return nil, err
	}
	return r.launch(ctx, spec, func(s *Sandbox, ctx context.Context) error {
		if len(volumes) > 0 {
			if err := s.Mount(ctx, volumes...); err != nil {
				return err
			}
		}
		return s.Restore(ctx, dir, how)
	})
}

func (r *Runtime) launch(ctx context.Context, spec Spec,
	start func(*Sandbox, context.Context) error,
) (*Sandbox, error) {
	release, err := r.starts.Acquire(ctx, "sandbox.create", spec.Tenant)
	if err != nil {
		return nil, err
	}
	defer release()
	s, err := r.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := start(s, ctx); err != nil {
		return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Create creates a blank sandbox: its sentry waits before any program is loaded. It takes 9 MiB,
// and 22 MiB after it has waited for 50 ms and warmed up for a restore. Start or Restore uses it,
// once.
func (r *Runtime) Create(ctx context.Context, spec Spec) (*Sandbox, error) {
	const op = "sandbox.create"
	spec, err := spec.resolve(op)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, fault.New(fault.Restarting, op, "the runtime is closed")
	}
	r.creating.Add(1)
	r.mu.Unlock()
	defer r.creating.Done()

	if ctx.Err() != nil {
		return nil, fault.Wrap(fault.KindOf(context.Cause(ctx)), op, context.Cause(ctx))
	}
	// A creation cannot be interrupted. If the caller leaves, the creation completes, which takes
	// 60 ms, and the sandbox is destroyed.
	id := newID()
	s, err := r.create(id, spec)
	if err != nil {
		err = errors.Join(err, r.removeSandbox(id))
		return nil, &fault.Error{
			Kind: fault.Host, Op: op,
			Message: "gVisor cannot create a sandbox; run sandgate doctor", Err: err,
		}
	}
	r.mu.Lock()
	r.live[id] = s
	r.mu.Unlock()
	if ctx.Err() != nil {
		err := fault.Wrap(fault.KindOf(context.Cause(ctx)), op, context.Cause(ctx))
		return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (r *Runtime) create(id ID, spec Spec) (s *Sandbox, err error) {
	made, err := newGroup(filepath.Join(r.parent.path, string(id)))
	if err != nil {
		return nil, err
	}
	g := &made
	// runsc uses an existing cgroup as it is. So this process removes it, and can kill by it, also
	// when runsc fails half way.
	if err := g.Install(spec.Limits.resources(r.swap, g.v2)); err != nil {
		return nil, err
	}
	// The creation needs processors as much as the sandbox does later.
	r.shares.Include(spec.Tenant, g)
	defer func() {
		if err != nil {
			r.shares.Remove(g)
		}
	}()
	conf, err := r.conf(id)
	if err != nil {
		return nil, err
	}
	if err := r.writeBundle(id, spec, g.path); err != nil {
		return nil, err
	}
	p, err := newPipes(r.cfg.PipeBytes)
	if err != nil {
		return nil, err
	}
	stderr := newStderrTail(p.stderr)
	if err := r.runCreate(id, r.binary(spec).Path, conf, p); err != nil {
		// When the last writer has ended, all its output can be read.
		err = errors.Join(err, killAll(dirs(g.path, g.v2), killLimit))
		err = fmt.Errorf("%w: %s", err, oneLine(stderr.wait()))
		// runsc only reports that the sentry died, but not why.
		said, _ := os.ReadFile(r.panicLog(id))
		count := g.read()
		err = fmt.Errorf("%w: the sentry said %q; %d tasks were refused it, %d killed for memory",
			err,
			oneLine(string(said[:min(len(said), kiB)])), count.pidsReached, count.killed)
		p.close()
		return nil, err
	}
	s, err = r.attach(id, conf, spec, g, p, stderr)
	if err != nil {
		p.close()
	}
	return s, err
}

// writeBundle makes the directory that describes the sandbox to runsc.
func (r *Runtime) writeBundle(id ID, spec Spec, cgroupPath string) error {
	dir := r.bundle(id)
	root := filepath.Join(dir, "rootfs")
	if err := os.MkdirAll(root, 0o711); err != nil {
		return err
	}
	if err := os.Symlink(spec.Image, filepath.Join(dir, imageName)); err != nil {
		return err
	}
	oci := spec.oci(root, cgroupPath)
	if spec.Volumes {
		if err := os.Mkdir(filepath.Join(dir, volumesName), 0o755); err != nil {
			return err
		}
		oci.Mounts = append(oci.Mounts, r.volumesMount(id))
	}
	data, err := json.Marshal(oci)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}

// runCreate runs `runsc create`. Afterwards the far ends of the pipes are closed in this process,
// so that only the sentry holds them.
func (r *Runtime) runCreate(id ID, runsc string, conf *config.Config, p *pipes) error {
	defer p.closeFar()
	ctx, cancel := context.WithTimeout(context.Background(), createLimit)
	defer cancel()
	args := append(conf.ToFlags(), "create", "--bundle="+r.bundle(id), string(id))
	cmd := exec.CommandContext(ctx, runsc, args...)
	cmd.Dir = r.bundle(id)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.farStdin, p.farStdout, p.farStderr
	// A Ctrl-C at the node's terminal must not reach it.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("runsc create: %w", err)
	}
	return nil
}

// attach takes over the sentry that `runsc create` started.
func (r *Runtime) attach(id ID, conf *config.Config, spec Spec, g *group, p *pipes,
	stderr *stderrTail,
) (*Sandbox, error) {
	image, err := edition.ImageID(spec.Image)
	if err != nil {
		return nil, err
	}
	c, err := container.Load(r.root(),
		container.FullID{SandboxID: string(id), ContainerID: string(id)},
		container.LoadOpts{Exact: true, SkipCheck: true})
	if err != nil {
		return nil, fmt.Errorf("loading the new container: %w", err)
	}
	// The process id belongs to the sentry even if it has died already, because only this process
	// reaps it.
	proc, err := openProcess(c.Sandbox.Pid.Load())
	if err != nil {
		return nil, err
	}
	oom, err := g.outOfMemory()
	if err != nil {
		proc.close()
		return nil, err
	}
	s := &Sandbox{
		id: id, runtime: r, tenant: spec.Tenant, spec: spec, conf: conf, group: g,
		edition: edition.ID{Runtime: r.binary(spec).ID, Image: image},
		stdin:   p.stdin, stdout: p.stdout, stderr: stderr,
		process: proc, oom: oom, container: c,
		turn: make(chan struct{}, 1), done: make(chan struct{}), loaded: make(chan struct{}),
		gone: make(chan struct{}),
	}
	if spec.Volumes {
		if err := s.seal(); err != nil {
			proc.close()
			closeAll(oom)
			return nil, fmt.Errorf("making the directory of volumes read-only: %w", err)
		}
	}
	go s.watch()
	if oom != nil {
		go s.watchMemory()
	}
	return s, nil
}

// pipes are a sandbox's standard streams. The far ends are the sandbox's.
type pipes struct {
	stdin, stdout, stderr          *os.File
	farStdin, farStdout, farStderr *os.File
}

func newPipes(size int) (*pipes, error) {
	var p pipes
	var err error
	if p.farStdin, p.stdin, err = os.Pipe(); err == nil {
		if p.stdout, p.farStdout, err = os.Pipe(); err == nil {
			p.stderr, p.farStderr, err = os.Pipe()
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	for _, f := range []*os.File{p.stdin, p.stdout} {
		if err := resizePipe(f, size); err != nil {
			p.close()
			return nil, err
		}
	}
	return &p, nil
}

// resizePipe sets a pipe's capacity. It does not call f.Fd, which would make
// the file block.
func resizePipe(f *os.File, size int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sysErr error
	err = conn.Control(func(fd uintptr) { _, sysErr = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
	if sysErr != nil {
		return fmt.Errorf("a pipe of %d bytes: %w", size, sysErr)
	}
	return err
}

func (p *pipes) closeFar() { closeAll(p.farStdin, p.farStdout, p.farStderr) }

func (p *pipes) close() {
	p.closeFar()
	closeAll(p.stdin, p.stdout, p.stderr)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // a second close returns an error that does not matter
		}
	}
}

// oneLine converts a message of several lines to one line for a log.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
