// Package request checks the requests for new sessions and channels, and for
// changes of sessions, and resolves them: it adds defaults and finds templates and
// languages. It knows no live session.
package request

import (
	"time"

	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of requests, beside those of package protocol.
const (
	maxName     = 128       // bytes of a session's name
	maxEnv      = 128       // variables
	maxEnvBytes = 64 << 10  // names and values
	maxArgs     = 1024      // arguments of a process
	maxArgBytes = 128 << 10 // all together
)

// Templates finds templates. *warm.Manager implements it.
type Templates interface {
	// Language returns the template of a language.
	Language(name string) *warm.Template
	// Find returns a tenant's template. field is the field of the request that
	// names it.
	Find(op, field, tenant, name string) (*warm.Template, error)
}

// Networks checks what a session may reach outside. proxy.Config implements it.
type Networks interface {
	Check(op, field, tenant string, asked *protocol.Network) (*protocol.Network, error)
}

// Config has the settings of a Checker. All fields are required.
type Config struct {
	// Languages are the kernels of the node's image. DefaultLanguage is the name of
	// the one for sessions that ask for none.
	Languages       []kernel.Manifest
	DefaultLanguage string
	Templates       Templates
	Egress          Networks
	// Limits are the default limits of a session, and MaxLimits the most that it
	// may ask for. A field that is zero in MaxLimits is bounded by Limits. A field that
	// is zero in both cannot be asked for.
	Limits, MaxLimits protocol.Limits
	// Lifetime is the default lifetime; 0 means MaxLifetime. MaxLifetime is the longest; 0 means
	// that a session need not end.
	Lifetime, MaxLifetime time.Duration
	// DeleteAfter is the default and the longest time without work before a session is deleted; 0
	// means never.
	DeleteAfter time.Duration
	// PauseAfter and HibernateAfter are the default idle times; negative is never.
	// MaxIdle is the longest idle time; negative means any.
	PauseAfter, HibernateAfter, MaxIdle time.Duration
	// Hibernates is true if sessions can be hibernated.
	Hibernates bool
}

// Checker checks and resolves requests. It has no state.
type Checker struct{ cfg Config }

// New returns a Checker.
func New(cfg Config) *Checker { return &Checker{cfg} }
