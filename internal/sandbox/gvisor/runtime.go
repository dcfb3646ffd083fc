package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/runsc/cgroup"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
	"gvisor.dev/gvisor/runsc/specutils"

	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/internal/fairqueue"
	"github.com/sandgate/sandgate/internal/sandbox/pagesfile"
	"github.com/sandgate/sandgate/internal/sandbox/shares"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A node starts two sandboxes for each processor at a time, and writes as many snapshots, at least
// minSlots. maxWaiting requests wait for each.
const (
	minSlots   = 4
	maxWaiting = 1024
)

// Config configures a Runtime. Only Runsc has no default.
type Config struct {
	// Runsc is the absolute path of the binary that deploy/runsc/build builds. Every user must be
	// able to execute it, because sandboxes run as nobody.
	Runsc string
	// StateDir is the state directory, which no other Runtime uses. Its path has at most 60 bytes.
	// Put it on a tmpfs: no file in it is needed after a restart of the machine. Default
	// /run/sandgate/sandboxes.
	StateDir string
	// Platform is gVisor's way to intercept system calls: "systrap" (the
	// default, works everywhere) or "kvm" (bare metal only).
	Platform string
	// CgroupParent is the cgroup below which sandboxes get theirs. It is absolute within the
	// hierarchy that this process sees. Default /sandgate.
	CgroupParent string
	// PipeBytes is the size of the pipes at a sandbox's stdin and stdout. Default 1 MiB, the
	// maximum that a kernel allows without privileges.
	PipeBytes int
	// CopyMemory copies the memory of each snapshot to each sandbox that is restored from it, instead
	// of sharing it between the sandboxes.
	CopyMemory bool
	// DebugDir, when set, is the folder for gVisor's debug logs. They have hundreds of lines for
	// each start, and starts take twice as long.
	DebugDir string
	// Log receives messages of the runtime. Default slog.Default().
	Log *slog.Logger
}

func (c Config) resolve() Config {
	c.StateDir = or(c.StateDir, "/run/sandgate/sandboxes")
	c.Platform = or(c.Platform, "systrap")
	c.CgroupParent = or(c.CgroupParent, "/sandgate")
	c.PipeBytes = or(c.PipeBytes, miB)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Runtime owns a state directory and the sandboxes in it.
//
// It changes its process in three ways, for which there is no alternative: the process adopts
// orphans (PR_SET_CHILD_SUBREAPER), so that it learns how sentries end; gVisor's package-level log
// is sent to Config.Log; and gVisor's specutils.ExePath is Config.Runsc. A process has one Runtime,
// or several that agree on these. It must not wait for any child (wait4 of -1) elsewhere.
type Runtime struct {
	cfg     Config
	buildID string
	// parent is the cgroup of all sandboxes of this state directory.
	parent group
	// swap reports whether the kernel accounts swap.
	swap bool
	lock *os.File
	// shares divides the processors until stop is closed.
	shares *shares.Shares
	stop   chan struct{}
	// starts and saves are the turns of tenants that start sandboxes and write snapshots.
	starts, saves *fairqueue.Slots

	known pagesfile.Known

	mu     sync.Mutex
	live   map[ID]*Sandbox
	closed bool
	// creating counts the calls of Create that may still add to live.
	creating sync.WaitGroup
}

// NewRuntime checks the host, locks the state directory, and removes everything that a killed owner
// left in it: processes, mounts, cgroups and files. Errors: Host with advice, or Conflict when
// another process owns the directory.
func NewRuntime(cfg Config) (*Runtime, error) {
	const op = "sandbox.new"
	cfg = cfg.resolve()
	for _, f := range checkConfig(cfg) {
		if f.Status == Fail {
			return nil, fault.New(fault.Host, op, "%s: %s; %s", f.Name, f.What, f.Repair)
		}
	}
	id, err := edition.RuntimeID(cfg.Runsc)
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := os.MkdirAll(filepath.Join(cfg.StateDir, rootName), 0o711); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := os.Chmod(cfg.StateDir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	lock, err := lockFile(filepath.Join(cfg.StateDir, "lock"))
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fault.New(fault.Conflict, op,
			"another process owns %s; stop it, or use another state directory", cfg.StateDir)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	slots := max(minSlots, 2*runtime.NumCPU())
	r := &Runtime{
		cfg: cfg, buildID: id, lock: lock, live: map[ID]*Sandbox{},
		stop:   make(chan struct{}),
		starts: fairqueue.New(slots, maxWaiting), saves: fairqueue.New(slots, maxWaiting),
	}
	if err := r.prepare(); err != nil {
		lock.Close()
		return nil, err
	}
	r.shares = r.newShares()
	go r.shares.Run(r.stop)
	return r, nil
}

func (r *Runtime) prepare() error {
	const op = "sandbox.new"
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fault.Wrap(fault.Host, op, fmt.Errorf("adopting orphans: %w", err))
	}
	log.SetTarget(gvisorLog{r.cfg.Log})
	log.SetLevel(log.Warning)
	specutils.ExePath = r.cfg.Runsc

	if cgroup.IsOnlyV2() {
		if err := leaveCgroupRoot(cgroupRoot); err != nil {
			return fault.Wrap(fault.Host, op, err)
		}
	}
	path := filepath.Join(r.cfg.CgroupParent, cgroupName(r.cfg.StateDir))
	parent, err := newGroup(path)
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	r.parent = parent
	swept, err := r.sweep()
	if err != nil {
		return fault.Wrap(fault.Host, op,
			fmt.Errorf("removing the remains of an earlier process in %s: %w", r.cfg.StateDir, err))
	}
	if swept > 0 {
		r.cfg.Log.Info("removed the remains of an earlier process", "sandboxes", swept)
	}
	if err := parent.Install(nil); err != nil {
		return &fault.Error{
			Kind: fault.Host, Op: op, Err: err,
			Message: fmt.Sprintf(
				"the cgroup %s cannot be made; in a container, give it its own cgroup namespace, writable, with no process in its root", path),
		}
	}
	if err := balance(r.cfg.CgroupParent); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	memory := parent.MakePath("memory")
	r.swap = exists(filepath.Join(memory, "memory.memsw.limit_in_bytes")) ||
		exists(filepath.Join(memory, "memory.swap.max"))
	return nil
}

// binary returns the runsc binary of the sandboxes of a Spec.
func (r *Runtime) binary(s Spec) Binary { return or(s.Runsc, Binary{r.cfg.Runsc, r.buildID}) }

// Memory returns how many bytes all sandboxes hold together now, without memory that the kernel
// could reclaim. Pages of images and snapshots are reclaimable, and stay charged to the parent of
// the sandboxes after the sandboxes have ended.
func (r *Runtime) Memory() int64 { return r.parent.held() }

// Turns returns the counters of the queues of tenants that start sandboxes and save them.
func (r *Runtime) Turns() map[string]fairqueue.Stats {
	return map[string]fairqueue.Stats{"start": r.starts.Stats(), "save": r.saves.Stats()}
}

// HeavyTenants returns the number of tenants that use more than their part of the processors.
func (r *Runtime) HeavyTenants() int { return r.shares.Heavy() }

// Live returns the number of sandboxes that have not been destroyed.
func (r *Runtime) Live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)
}

// Close destroys all sandboxes and releases the state directory. No sandbox can be created after
// it.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.mu.Unlock()
	close(r.stop)
	r.creating.Wait()

	r.mu.Lock()
	var all []*Sandbox
	for _, s := range r.live {
		all = append(all, s)
	}
	r.mu.Unlock()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() { errs[i] = s.Destroy(ctx) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if e := removeTree(r.parent.path, r.parent.v2, killLimit); e != nil {
		err = errors.Join(err, fault.Wrap(fault.Host, "sandbox.close", e))
	}
	// gVisor's own mount of an empty network namespace, and the mount below it, if a sandbox had a
	// file server.
	e := unmountBelow(r.root())
	if e == nil {
		if e = os.Remove(filepath.Join(r.root(), "null-netns")); errors.Is(e, fs.ErrNotExist) {
			e = nil
		}
	}
	if e != nil {
		err = errors.Join(err, fault.Wrap(fault.Host, "sandbox.close", e))
	}
	return errors.Join(err, r.lock.Close())
}

// rootName is gVisor's own directory in the state directory. Each other directory there is the
// bundle of the sandbox with that name.
const rootName = "runsc"

func (r *Runtime) root() string          { return filepath.Join(r.cfg.StateDir, rootName) }
func (r *Runtime) bundle(id ID) string   { return filepath.Join(r.cfg.StateDir, string(id)) }
func (r *Runtime) panicLog(id ID) string { return filepath.Join(r.bundle(id), "panic.log") }

// conf returns gVisor's configuration, which is the same for create, start and restore of a
// sandbox.
func (r *Runtime) conf(id ID) (*config.Config, error) {
	set := flag.NewFlagSet("runsc", flag.ContinueOnError)
	config.RegisterFlags(set)
	flags := map[string]string{
		"root":     r.root(),
		"platform": r.cfg.Platform,
		// Loopback only. The agent's channel is the only way out.
		"network": "none",
		// No file of the host is served, so the sentry needs no access to the host's file system:
		// it runs as nobody in a user namespace of its own, and its system call filter has no file
		// operations.
		"directfs": "false",
		// The root's overlay comes from the annotations.
		"overlay2": "none",
		"host-uds": "none",
		// CheckHost reports these; a warning at each start would not help.
		"host-settings": "ignore",
		// A guest task that hangs in the sentry must not stay unnoticed.
		"watchdog-action": "panic",
		"panic-log":       r.panicLog(id),
	}
	if r.cfg.DebugDir != "" {
		flags["debug"], flags["debug-log"] = "true", r.cfg.DebugDir+"/"
	}
	for name, value := range flags {
		if err := set.Set(name, value); err != nil {
			return nil, fmt.Errorf("flag %s: %w", name, err)
		}
	}
	return config.NewFromFlags(set)
}

// cgroupName returns the name of a state directory's cgroup. It separates nodes that share a
// machine and a parent.
func cgroupName(stateDir string) string {
	sum := sha256.Sum256([]byte(stateDir))
	return "node-" + hex.EncodeToString(sum[:4])
}

// lockFile takes the lock of a running owner. The kernel releases it when the
// process ends, for whatever reason.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return f, nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}
