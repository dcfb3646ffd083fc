package warm

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
)

// Config configures a Manager. No field has a default, except Images and Unpacker.
type Config struct {
	// Backend starts and restores the sandboxes.
	Backend sandbox.Backend
	// DataDir contains the folder snapshots and the folder templates, which has the definitions of
	// users' templates.
	DataDir string
	// Languages are the kernels of the backend's image. DefaultLanguage is the name of one of them.
	Languages       []kernel.Manifest
	DefaultLanguage string
	// Limits are the defaults of sessions.
	Limits protocol.Limits
	// Pools is the number of sandboxes that are kept ready, by the name of their language.
	Pools map[string]int
	// Parallel is how many sandboxes a pool makes at a time.
	Parallel int
	// PoolMemory bounds the memory of the sandboxes that are kept ready because of demand, in bytes.
	// The sandboxes of Pools do not count.
	PoolMemory int64
	// Shared reports whether several tenants use the node. The pools then keep additional sandboxes
	// for tenants that take few; nil means that they do not.
	Shared func() bool
	// ClaimWait bounds how long Claim waits for a sandbox.
	ClaimWait time.Duration
	// BootLimit bounds a cold boot with its kernel and warm-up. BuildLimit is
	// added to it for a user's template.
	BootLimit, BuildLimit time.Duration
	// MaxTemplates is how many templates a tenant may have. TemplateBytes bounds the tar of each
	// template.
	MaxTemplates  int
	TemplateBytes int64
	// Images makes root filesystems from users' images; nil means that templates cannot have an
	// image.
	Images Images
	// Unpacker reads the tars of templates; nil means that this process does it.
	Unpacker Unpacker
	// Stored keeps the templates where all nodes of a cluster find them; nil means that they are on
	// this node only.
	Stored   Shared
	Host     Host
	Observer Observer
	Log      *slog.Logger
}

// Host is the node that uses a Manager. Its methods are called from several goroutines, without a
// lock of this package.
type Host interface {
	// CheckSpec checks the parts of a template that concern sessions: environment, limits,
	// networks and volumes.
	CheckSpec(tenant string, spec *protocol.TemplateSpec) error
	// MayStore checks the tenant's quota before a template is received.
	MayStore(tenant, subject string) error
	// MemoryShort reports whether sandboxes that take need more bytes exceed the node's memory.
	MemoryShort(need int64) bool
	// OpenNetwork gives the commands of a build access to the network, through the sandbox's agent.
	// It returns nil if def asks for no network.
	OpenNetwork(ctx context.Context, agent *client.Client, def *TemplateDef) (*BuildNetwork, error)
	// NewSink returns the sink of a new sandbox's agent.
	NewSink() Sink
}

// BuildNetwork is the network of a build.
type BuildNetwork struct {
	// Port is the proxy's port in the sandbox. Env has the variables with which programs find the
	// proxy.
	Port int
	Env  map[string]string
	// Close ends all connections.
	Close func()
}

// Sink receives the frames of a sandbox's agent, from the agent's start.
type Sink interface {
	client.Sink
	// Number returns a channel number that was never used on this wire. The
	// first is KernelChannel + 1.
	Number() uint32
}

// Observer counts events. Its methods must return at once.
type Observer interface {
	// Claimed reports a claim that was served. The source is "pool" for a sandbox that was ready,
	// "wait" after a wait for the pool, and "cold" for a sandbox that was made for the claim.
	Claimed(language, source string, took time.Duration)
	// Restored reports a restore of a template's snapshot.
	Restored(ok bool)
	// Booted reports a cold boot.
	Booted()
	// KernelStarted reports the start of a kernel.
	KernelStarted()
	// Built reports the end of a build of a user's template.
	Built(tenant, template string, err error)
}

// language returns the language with a name or alias: one of the image, or one of more.
func (c Config) language(name string, more ...kernel.Manifest) (kernel.Manifest, bool) {
	m, err := kernel.Find(slices.Concat(c.Languages, more), name)
	return m, err == nil
}

func (c Config) snapshotsDir() string { return filepath.Join(c.DataDir, "snapshots") }
func (c Config) templatesDir() string { return filepath.Join(c.DataDir, "templates") }
