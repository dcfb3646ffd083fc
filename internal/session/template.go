package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
)

// template is what sessions are made from: a warm snapshot. It is made once
// for each state of image, runtime, manifest and source, and kept over restarts
// of the node.
type template struct {
	m *Manager
	// key is the language's name, or TENANT/NAME of a user's template.
	key string
	// manifest is that of the language that is warm; without one its Name is
	// empty.
	manifest kernel.Manifest
	// source is what a user's template is made from; nil for a language's own.
	source *source
	layout Layout
	// limits are those of its sessions that do not say.
	limits protocol.Limits
	env    map[string]string
	// twin is the same for sessions with volumes, whose sandboxes differ; nil
	// for a twin. Nothing of it is made before somebody asks.
	twin *template
	// name is the folder below snapshots; info, beside it with the ending
	// .json, is what its kernel said when it was ready.
	name string

	// turn is held by the one who builds.
	turn chan struct{}

	mu      sync.Mutex // guards all below
	ready   bool
	warm    warmKernel
	spoiled bool // this machine cannot restore it: boot cold
	misses  int  // restores that failed since one succeeded
	failed  time.Time
	fails   int // builds that failed since one succeeded
	err     error
	words   string    // what the last build has printed
	shop    *workshop // where a build is under way
	gone    bool      // deleted
	// bytes is what a waiting sandbox of it was seen to hold.
	bytes int64
	pool  *pool.Pool[*Instance]
	least int // of the pool
	// wanted is how many claims there were lately, fading by time.
	wanted float64
	faded  time.Time
}

// newTemplate returns the template of a language, or of a user's source, with
// its twin.
func (m *Manager) newTemplate(l kernel.Manifest, src *source) (*template, error) {
	t, err := m.oneTemplate(l, src, false)
	if err == nil {
		t.twin, err = m.oneTemplate(l, src, true)
	}
	return t, err
}

func (m *Manager) oneTemplate(l kernel.Manifest, src *source, twin bool) (*template, error) {
	t := &template{m: m, key: l.Name, manifest: l, limits: m.cfg.Limits, turn: make(chan struct{}, 1), layout: Layout{Limits: machineLimits(m.cfg.Limits)}}
	name := l.Name
	var stamp string
	if src != nil {
		t.key, name, stamp = src.key(), "t-"+src.Name, src.stamp()
		t.source, t.env = src, src.env()
		t.limits = mergeLimits(m.cfg.Limits, src.Spec.Limits)
		t.layout = Layout{Image: src.image(), Env: src.ImageEnv, Limits: machineLimits(t.limits)}
	}
	// Where all sessions have volumes the twin is not needed.
	if t.layout.Volumes = twin || src != nil && len(src.Spec.Volumes) > 0; twin {
		name += "-volumes"
	}
	key, err := m.cfg.Backend.Key(t.layout.spec(nil))
	if err != nil {
		return nil, err
	}
	if t.name, err = snapshotName(name, key, l, stamp); err != nil {
		return nil, err
	}
	return t, nil
}

// snapshotName names the folder of a template's snapshot. It hashes the JSON of
// all that the snapshot depends on.
func snapshotName(name, key string, l kernel.Manifest, stamp string) (string, error) {
	data, err := json.Marshal([]any{key, l, stamp})
	if err != nil {
		return "", fault.Wrap(fault.Internal, "session.template", err)
	}
	sum := sha256.Sum256(data)
	return name + "-" + hex.EncodeToString(sum[:10]), nil
}

// extra is what a user's template may take longer to make.
func (t *template) extra() time.Duration {
	if t.source == nil {
		return 0
	}
	return t.m.cfg.BuildLimit
}

// warmKernel is what has to be known of the kernel in a snapshot.
type warmKernel struct {
	Info kernel.Info `json:"info"`
	// Taken is how many bytes of its output the host had taken.
	Taken uint64 `json:"taken"`
}

// retryBuild is how long after a failed build the next is tried, at most. The
// first is repeated after a second, since a machine that was busy then may not
// be any more; each further one waits twice as long.
const retryBuild = time.Minute

func patience(fails int) time.Duration { return min(retryBuild, time.Second<<min(fails-1, 10)) }

func (t *template) dir() string  { return filepath.Join(t.m.snapshotsDir(), t.name) }
func (t *template) side() string { return t.dir() + ".json" }

// get returns the snapshot's folder and its kernel's description. With build
// it makes one where there is none; without, the folder may be empty.
func (t *template) get(ctx context.Context, build bool) (string, warmKernel, error) {
	if dir, warm, done, err := t.known(); done {
		return dir, warm, err
	}
	if !build && len(t.turn) > 0 {
		return "", warmKernel{}, nil // it is being made: do not wait
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", warmKernel{}, ctx.Err()
	}
	if dir, warm, done, err := t.known(); done {
		return dir, warm, err
	}
	warm, err := t.load()
	if errors.Is(err, fs.ErrNotExist) {
		if !build {
			return "", warmKernel{}, nil
		}
		warm, err = t.build(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if t.source != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = &fault.Error{Kind: fault.Conflict, Op: "template.build", Message: fmt.Sprintf("it was not built in %s, which is the most that it may take (templates.build)", t.m.cfg.BootLimit+t.extra()), Err: err}
		}
		if ctx.Err() == nil || fault.Is(err, fault.Conflict) {
			t.failed, t.err = time.Now(), err
			t.fails++
			t.tellFailure(err)
		}
		return "", warmKernel{}, err
	}
	t.ready, t.warm, t.err, t.fails = true, warm, nil, 0
	return t.dir(), warm, nil
}

// tellFailure tells the operator of a build that failed. What a user's commands
// are and have printed is the user's, and may be secret: the template tells it.
func (t *template) tellFailure(err error) {
	said := err.Error()
	if field := fault.PublicOf(err).Field; fault.Is(err, fault.Conflict) && (field == "run" || field == "code" || field == "packages") {
		said = field + " failed"
	}
	t.m.log.Warn("a template could not be built", "template", t.key, "kind", fault.KindOf(err), "tries", t.fails, "error", said)
}

// known returns what needs no disk. done is false when it has to be looked at.
func (t *template) known() (dir string, warm warmKernel, done bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.spoiled:
		return "", warmKernel{}, true, nil
	case t.ready:
		return t.dir(), t.warm, true, nil
	case t.err != nil && time.Since(t.failed) < patience(t.fails):
		return "", warmKernel{}, true, t.err
	}
	return "", warmKernel{}, false, nil
}

// maxMisses is how many restores in a row may fail before a snapshot is given
// up. One may be due to load; all are, say, when the CPU is another one.
const maxMisses = 3

// hit and miss note how a restore went. After maxMisses the snapshot is
// removed, so that the next process makes another; this one boots cold.
func (t *template) hit(ctx context.Context, mb *Instance) {
	var held int64
	if u, err := mb.machine.Usage(ctx); err == nil {
		held = u.Memory
	}
	t.mu.Lock()
	t.misses = 0
	if held > 0 {
		t.bytes = held
	}
	t.mu.Unlock()
}

func (t *template) miss(dir string) {
	t.mu.Lock()
	t.misses++
	spoil := t.misses >= maxMisses && !t.spoiled
	if spoil {
		t.ready, t.spoiled = false, true
	}
	t.mu.Unlock()
	if !spoil {
		return
	}
	t.m.log.Error("a snapshot cannot be restored on this machine; booting cold from now on", "snapshot", t.name)
	for _, err := range []error{os.RemoveAll(t.side()), os.RemoveAll(dir)} {
		if err != nil {
			t.m.log.Warn("a spoiled snapshot was not removed", "error", err)
		}
	}
}

// load finds the snapshot that an earlier process made.
func (t *template) load() (warmKernel, error) {
	var warm warmKernel
	data, err := os.ReadFile(t.side())
	if err != nil {
		return warm, err
	}
	if _, err := os.Stat(t.dir()); err != nil {
		return warm, err
	}
	return warm, json.Unmarshal(data, &warm)
}

// build boots a machine, warms its kernel and checkpoints it.
func (t *template) build(ctx context.Context) (warmKernel, error) {
	const op = "session.template"
	begin := time.Now()
	if err := os.RemoveAll(t.dir()); err != nil { // one without its side file
		return warmKernel{}, fault.Wrap(fault.Host, op, err)
	}
	mb, words, err := t.m.boot(ctx, t, t.layout)
	t.mu.Lock()
	t.words = words
	t.mu.Unlock()
	if err != nil {
		return warmKernel{}, err
	}
	booted := time.Since(begin)
	if t.manifest.Warm != "" && !t.bare() {
		r, err := mb.agent.Kernels.Request(ctx, warmChannel, kernel.Request{Op: "execute", Code: t.manifest.Warm, Silent: true})
		if err != nil {
			return warmKernel{}, t.m.failed(mb, err)
		}
		if r.Status != "ok" {
			// Colder than it should be, but sound.
			t.m.log.Warn("the warm-up of a language failed", "language", t.manifest.Name, "ename", r.EName, "evalue", r.EValue)
		}
	}
	// All that was sent has been taken when the answer to this is here.
	if err := mb.agent.Ping(ctx); err != nil {
		return warmKernel{}, t.m.failed(mb, err)
	}
	warm := warmKernel{Info: mb.info}
	if mb.language != "" {
		warm.Taken = mb.agent.Delivered(warmChannel)
	}
	err = mb.machine.Checkpoint(ctx, t.dir())
	t.m.discard(mb)
	if err != nil {
		return warmKernel{}, err
	}
	data, err := json.Marshal(warm)
	if err == nil {
		err = writeFile(t.side(), data)
	}
	if err != nil {
		return warmKernel{}, fault.Wrap(fault.Host, op, err)
	}
	t.m.log.Info("made a warm snapshot", "template", t.key, "snapshot", t.name, "boot", booted, "took", time.Since(begin))
	return warm, nil
}

// bare reports whether nothing is loaded but the language.
func (t *template) bare() bool { return t.source != nil && t.source.Spec.Bare }

// writeFile writes a file that is there wholly or not at all.
func writeFile(name string, data []byte) error {
	f, err := os.OpenFile(name+".partial", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name+".partial"))
	}
	return os.Rename(name+".partial", name)
}

// sweepSnapshots removes what no template of this process has the name of.
func (m *Manager) sweepSnapshots() error {
	keep := map[string]bool{}
	for _, t := range m.all() {
		keep[t.name] = true
	}
	entries, err := os.ReadDir(m.snapshotsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if keep[strings.TrimSuffix(e.Name(), ".json")] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(m.snapshotsDir(), e.Name())); err != nil {
			return err
		}
		m.log.Info("removed an old snapshot", "name", e.Name())
	}
	return nil
}
