// Package flags holds the values of flags that the standard types lack.
package flags

import (
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

// List is a flag that can be given several times.
type List []string

func (l *List) String() string { return strings.Join(*l, " ") }

func (l *List) Set(s string) error { *l = append(*l, s); return nil }

// Pairs is a flag of NAME=VALUE that can be given several times.
type Pairs map[string]string

func (p Pairs) String() string { return "" }

func (p Pairs) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=VALUE", text)
	}
	p[name] = value
	return nil
}

// Idle is a flag of an idle time: a duration, or never.
type Idle struct{ Seconds int64 }

func (i *Idle) String() string { return "" }

func (i *Idle) Set(text string) error {
	if text == "never" {
		i.Seconds = protocol.Never
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return fmt.Errorf("%q is neither a duration of at least 1s nor never", text)
	}
	i.Seconds = int64(d / time.Second)
	return nil
}

// Size is a flag of a number of bytes.
type Size struct{ N *int64 }

func (s Size) String() string { return "" }

func (s Size) Set(text string) error {
	n, err := config.ParseSize(text)
	*s.N = int64(n)
	return err
}

// Mounts is a flag of NAME[:PATH][:ro] that can be given several times.
type Mounts []protocol.Mount

func (m *Mounts) String() string { return "" }

func (m *Mounts) Set(text string) error {
	parts := strings.Split(text, ":")
	one := protocol.Mount{Name: parts[0]}
	for i, part := range parts[1:] {
		switch {
		case part == "ro" && i == len(parts)-2:
			one.ReadOnly = true
		case part == "rw" && i == len(parts)-2:
		case i == 0 && (part == "" || strings.HasPrefix(part, "/")):
			one.Path = part
		default:
			return fmt.Errorf("%q is not NAME, NAME:/PATH, NAME::ro or NAME:/PATH:ro", text)
		}
	}
	*m = append(*m, one)
	return nil
}

// Type implements pflag.Value.
func (l *List) Type() string { return "value" }

// Type implements pflag.Value.
func (p Pairs) Type() string { return "NAME=VALUE" }

// Type implements pflag.Value.
func (i *Idle) Type() string { return "time" }

// Type implements pflag.Value.
func (s Size) Type() string { return "size" }

// Type implements pflag.Value.
func (m *Mounts) Type() string { return "volume" }
