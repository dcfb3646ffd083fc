package warm

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

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// Template is the base of sessions: a snapshot of a sandbox with a warm kernel. The snapshot is made
// once for each combination of image, runtime, manifest and definition. It is kept when the node
// restarts.
type Template struct {
	maker *maker
	work  *background
	// key is the language's name, or TENANT/NAME for a user's template.
	key string
	// manifest describes the warm language. Its Name is empty if the image has no language.
	manifest kernel.Manifest
	// def is a user's definition; nil for a language's template.
	def    *TemplateDef
	layout Layout
	// limits are the defaults of its sessions.
	limits protocol.Limits
	env    map[string]string
	// volumes is the variant for sessions with volumes, whose sandboxes have a file server. It is nil
	// in such a variant. It is built when a session needs it.
	volumes *Template
	// name is the snapshot's folder below snapshots. The file with that name
	// and the ending .json describes the kernel in it.
	name string

	// building is held during a build.
	building chan struct{}

	mu    sync.Mutex // guards all below
	ready bool
	warm  warmKernel
	// unusable is set when this machine cannot restore the snapshot: sandboxes
	// boot cold.
	unusable       bool
	failedRestores int // since the last success
	// fetched is set when another node made the snapshot. ownOnly is set when this machine could not
	// restore it: the next one is made here.
	fetched, ownOnly bool
	// checked is set once this process has restored the snapshot, and so has checked it.
	checked  bool
	failed   time.Time
	failures int // builds that failed since the last success
	err      error
	output   string   // the output of the last build's commands
	builder  *builder // the build in progress
	deleted  bool
	// bytes is the measured memory of a waiting sandbox, 0 if unknown.
	bytes   int64
	pool    *pool.Pool[*Instance]
	minimum int // size of the pool
	// demand is the number of recent claims, decaying over time.
	demand   float64
	demandAt time.Time
}

// newTemplate returns the template of a language, or of a user's definition, with its variant for
// volumes.
func newTemplate(k *maker, work *background, l kernel.Manifest,
	def *TemplateDef,
) (*Template, error) {
	t, err := newVariant(k, work, l, def, false)
	if err == nil {
		t.volumes, err = newVariant(k, work, l, def, true)
	}
	return t, err
}

func newVariant(k *maker, work *background, l kernel.Manifest, def *TemplateDef,
	volumes bool,
) (*Template, error) {
	t := &Template{
		maker: k, work: work, key: l.Name, manifest: l, limits: k.cfg.Limits,
		building: make(chan struct{}, 1),
		layout:   Layout{Limits: sandboxLimits(k.cfg.Limits)},
	}
	name := l.Name
	var stamp string
	if def != nil {
		t.key, name, stamp = def.key(), "t-"+def.Name, def.stamp()
		t.def, t.env = def, def.env()
		t.limits = MergeLimits(k.cfg.Limits, def.Spec.Limits)
		t.layout = Layout{
			Image: def.image(), Env: def.ImageEnv, Limits: sandboxLimits(t.limits),
			Kernelspecs: def.Kernelspecs,
		}
	}
	// If all its sessions have volumes, both variants have them.
	if t.layout.Volumes = volumes || def != nil && len(def.Spec.Volumes) > 0; volumes {
		name += "-volumes"
	}
	key, err := k.cfg.Backend.Key(t.layout.Spec("", nil))
	if err != nil {
		return nil, err
	}
	if t.name, err = snapshotName(name, key, l, stamp); err != nil {
		return nil, err
	}
	return t, nil
}

// snapshotName returns the name of the folder of a template's snapshot. The name has a hash of
// everything that the snapshot depends on.
func snapshotName(name, key string, l kernel.Manifest, stamp string) (string, error) {
	l.Needs, l.Packages, l.Editor = nil, nil, nil // a snapshot does not depend on them
	data, err := json.Marshal([]any{key, l, stamp})
	if err != nil {
		return "", fault.Wrap(fault.Internal, "session.template", err)
	}
	sum := sha256.Sum256(data)
	return name + "-" + hex.EncodeToString(sum[:10]), nil
}

// Key returns the language's name, or TENANT/NAME for a user's template.
func (t *Template) Key() string { return t.key }

// owner returns the tenant whose template it is; "" for a language's template.
func (t *Template) owner() string {
	if t.def == nil {
		return ""
	}
	return t.def.Tenant
}

// WarmLanguage returns the name of the language whose kernel runs in its sandboxes; "" means that no
// kernel runs.
func (t *Template) WarmLanguage() string { return t.manifest.Name }

// Limits returns the default limits of its sessions.
func (t *Template) Limits() protocol.Limits { return t.limits }

// Def returns a user's definition; nil for a language's template.
func (t *Template) Def() *TemplateDef { return t.def }

// Failure returns the error of the last build if a repetition would fail too:
// the template's own commands, packages or code are wrong.
func (t *Template) Failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fault.Is(t.err, fault.Conflict) {
		return t.err
	}
	return nil
}

// buildLimit is the time that a user's template may take beyond BootLimit.
func (t *Template) buildLimit() time.Duration {
	if t.def == nil {
		return 0
	}
	return t.maker.cfg.BuildLimit
}

// warmKernel describes the kernel in a snapshot.
type warmKernel struct {
	Info message.Info `json:"info"`
	// Taken is how many bytes of its output the node had received.
	Taken uint64 `json:"taken"`
	// Revision is the wire.Revision of the agent.
	Revision int `json:"revision,omitempty"`
}

// retryBuild is the longest pause after a failed build. The first pause is a second, since the
// machine may have been busy. Each further pause is twice as long.
const retryBuild = time.Minute

func retryDelay(failures int) time.Duration {
	return min(retryBuild, time.Second<<min(failures-1, 10))
}

func (t *Template) dir() string      { return filepath.Join(t.maker.cfg.snapshotsDir(), t.name) }
func (t *Template) metaFile() string { return t.dir() + ".json" }

// snapshot returns the snapshot's folder and the description of its kernel. The folder is "" when
// sandboxes have to boot cold. If there is no snapshot, build decides whether one is made.
func (t *Template) snapshot(ctx context.Context, build bool) (string, warmKernel, error) {
	if dir, warm, done, err := t.cached(); done {
		return dir, warm, err
	}
	if !build && len(t.building) > 0 {
		return "", warmKernel{}, nil // do not wait for the build
	}
	select {
	case t.building <- struct{}{}:
		defer func() { <-t.building }()
	case <-ctx.Done():
		return "", warmKernel{}, ctx.Err()
	}
	if dir, warm, done, err := t.cached(); done {
		return dir, warm, err
	}
	warm, err := t.load()
	if errors.Is(err, fs.ErrNotExist) {
		if !build {
			return "", warmKernel{}, nil
		}
		if warm, err = t.fetch(ctx); err != nil {
			warm, err = t.build(ctx)
			defer func() { t.built(ctx, err) }()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if t.def != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = &fault.Error{
				Kind: fault.Conflict, Op: "template.build", Cause: fault.CauseTemplateBuild, Err: err,
				Message: fmt.Sprintf(
					"it was not built in %s, which is the most that it may take (templates.build)",
					t.maker.cfg.BootLimit+t.buildLimit()),
			}
		}
		if ctx.Err() == nil || fault.Is(err, fault.Conflict) {
			t.failed, t.err = time.Now(), err
			t.failures++
			t.logFailure(err)
		}
		return "", warmKernel{}, err
	}
	t.ready, t.warm, t.err, t.failures = true, warm, nil, 0
	if !t.maker.cfg.Backend.Capabilities().Checkpoint {
		t.unusable = true // the build was a trial: each sandbox boots cold
		return "", warm, nil
	}
	return t.dir(), warm, nil
}

// built reports the end of a build of a user's template. A build that the caller has abandoned did
// not end.
func (t *Template) built(ctx context.Context, err error) {
	if t.def != nil && (err == nil || ctx.Err() == nil || fault.Is(err, fault.Conflict)) {
		tenant, name, _ := strings.Cut(t.key, "/")
		t.maker.cfg.Observer.Built(tenant, name, err)
	}
}

// logFailure logs a failed build. The commands of a user and their output may be secret, so only the
// template's view has them.
func (t *Template) logFailure(err error) {
	text := err.Error()
	if field := fault.PublicOf(err).Field; fault.Is(err, fault.Conflict) &&
		(field == "run" || field == "code" || field == "packages") {
		text = field + " failed"
	}
	t.maker.log.Warn("a template could not be built", "template", t.key, "kind", fault.KindOf(err),
		"tries", t.failures, "error", text)
}

// cached returns the snapshot if its state is known in memory. done is false if
// the disk has to be read.
func (t *Template) cached() (dir string, warm warmKernel, done bool, err error) {
	if !t.maker.cfg.Backend.Capabilities().Checkpoint && t.def == nil {
		return "", warmKernel{}, true, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.unusable:
		return "", warmKernel{}, true, nil
	case t.ready:
		return t.dir(), t.warm, true, nil
	case t.err != nil && time.Since(t.failed) < retryDelay(t.failures):
		return "", warmKernel{}, true, t.err
	}
	return "", warmKernel{}, false, nil
}

// MaxFailedRestores is the number of restores in a row that fail before the snapshot is removed. A
// single failure may be due to load. After a change of the CPU, for example, all restores fail.
const MaxFailedRestores = 3

// restored records a successful restore.
func (t *Template) restored(ctx context.Context, i *Instance) {
	u, err := i.Machine.Usage(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failedRestores, t.checked = 0, true
	if err == nil && u.Memory > 0 {
		t.bytes = u.Memory
	}
}

// isChecked reports whether this process has restored the snapshot before.
func (t *Template) isChecked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.checked
}

// restoreFailed records a failed restore. After MaxFailedRestores it removes the snapshot, so that
// the next process makes a new one. This process boots cold.
func (t *Template) restoreFailed(dir string) {
	t.mu.Lock()
	t.failedRestores++
	remove := t.failedRestores >= MaxFailedRestores && !t.unusable
	fetched := t.fetched
	if remove {
		t.ready, t.unusable = false, !fetched
		t.fetched, t.ownOnly, t.failedRestores = false, fetched, 0
	}
	t.mu.Unlock()
	if !remove {
		return
	}
	next := "booting cold from now on"
	if fetched {
		next = "this node makes its own"
	}
	t.maker.log.Error("a snapshot cannot be restored on this machine; "+next, "snapshot", t.name)
	for _, err := range []error{os.RemoveAll(t.metaFile()), os.RemoveAll(dir)} {
		if err != nil {
			t.maker.log.Warn("an unusable snapshot was not removed", "error", err)
		}
	}
}

// load finds the snapshot of an earlier process.
func (t *Template) load() (warmKernel, error) {
	var warm warmKernel
	data, err := os.ReadFile(t.metaFile())
	if err != nil {
		return warm, err
	}
	if _, err := os.Stat(t.dir()); err != nil {
		return warm, err
	}
	return warm, json.Unmarshal(data, &warm)
}

// build boots a sandbox, warms its kernel and checkpoints it.
func (t *Template) build(ctx context.Context) (warmKernel, error) {
	const op = "session.template"
	begin := time.Now()
	if err := os.RemoveAll(t.dir()); err != nil { // left by a build that did not write the metadata
		return warmKernel{}, fault.Wrap(fault.Host, op, err)
	}
	i, output, err := t.maker.boot(ctx, t, t.layout, t.owner())
	t.mu.Lock()
	t.output = output
	t.mu.Unlock()
	if err != nil {
		return warmKernel{}, err
	}
	booted := time.Since(begin)
	if t.manifest.Warm != "" && !t.bare() {
		r, err := i.Agent.Kernels.Request(ctx, KernelChannel,
			kernel.Request{Op: "execute", Code: t.manifest.Warm, Silent: true})
		if err != nil {
			return warmKernel{}, t.maker.failed(i, err)
		}
		if r.Status != "ok" {
			// The kernel starts more slowly, but works.
			t.maker.log.Warn("the warm-up of a language failed", "language", t.manifest.Name,
				"ename", r.EName, "evalue", r.EValue)
		}
	}
	// When the answer arrives, the earlier output has arrived, too.
	if err := i.Agent.Ping(ctx); err != nil {
		return warmKernel{}, t.maker.failed(i, err)
	}
	warm := warmKernel{Info: i.Info, Revision: i.Agent.Revision()}
	if i.Language != "" {
		warm.Taken = i.Agent.Delivered(KernelChannel)
	}
	if !t.maker.cfg.Backend.Capabilities().Checkpoint {
		t.maker.discard(i)
		return warm, nil
	}
	err = i.Machine.Checkpoint(ctx, t.dir())
	t.maker.discard(i)
	if err != nil {
		return warmKernel{}, err
	}
	data, err := json.Marshal(warm)
	if err == nil {
		err = atomicfile.Write(t.metaFile(), data)
	}
	if err != nil {
		return warmKernel{}, fault.Wrap(fault.Host, op, err)
	}
	t.maker.log.Info("made a warm snapshot", "template", t.key, "snapshot", t.name, "boot", booted,
		"took", time.Since(begin))
	return warm, nil
}

// bare reports whether only the language is loaded, without its warm-up.
func (t *Template) bare() bool { return t.def != nil && t.def.Spec.Bare }

// buildLater builds the snapshot of a template without a pool in the background, unless a build is in
// progress.
func (t *Template) buildLater() {
	if len(t.building) > 0 {
		return
	}
	if _, _, done, _ := t.cached(); done {
		return
	}
	if t.work.begin("template.build") != nil {
		return
	}
	go func() {
		defer t.work.Done()
		ctx, cancel := context.WithTimeout(t.work.ctx, t.maker.cfg.BootLimit+t.buildLimit())
		defer cancel()
		_, _, _ = t.snapshot(ctx, true) // it logs the error
	}()
}

// waitBuilt waits until the template is built, at most ClaimWait. The build
// continues when the caller leaves.
func (t *Template) waitBuilt(ctx context.Context) error {
	const op = "session.create"
	if _, _, done, err := t.cached(); done {
		return err
	}
	if err := t.work.begin(op); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer t.work.Done()
		ctx, cancel := context.WithTimeout(t.work.ctx, t.maker.cfg.BootLimit+t.buildLimit())
		defer cancel()
		_, _, err := t.snapshot(ctx, true)
		done <- err
	}()
	timer := time.NewTimer(t.maker.cfg.ClaimWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return &fault.Error{
			Kind: fault.Exhausted, Op: op, Field: "template", RetryAfter: 10,
			Message: "the template is being built",
		}
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

func (t *Template) currentPool() *pool.Pool[*Instance] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pool
}
