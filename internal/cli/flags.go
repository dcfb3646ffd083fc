package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

// list is a flag that can be given again and again.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// pairs is a flag of NAME=VALUE that may be given again and again.
type pairs map[string]string

func (p pairs) String() string { return "" }

func (p pairs) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=VALUE", text)
	}
	p[name] = value
	return nil
}

// idle is a flag of an idle time: a duration, or never.
type idle struct{ seconds int64 }

func (i *idle) String() string { return "" }

func (i *idle) Set(text string) error {
	if text == "never" {
		i.seconds = protocol.Never
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return fmt.Errorf("%q is neither a duration from 1s on nor never", text)
	}
	i.seconds = int64(d / time.Second)
	return nil
}

// size is a flag of a number of bytes.
type size struct{ n *int64 }

func (s size) String() string { return "" }

func (s size) Set(text string) error {
	n, err := config.ParseSize(text)
	*s.n = int64(n)
	return err
}

// mounts is a flag of NAME[:PATH][:ro] that may be given again.
type mounts []protocol.Mount

func (m *mounts) String() string { return "" }

func (m *mounts) Set(text string) error {
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
func (l *list) Type() string { return "value" }

// Type implements pflag.Value.
func (p pairs) Type() string { return "NAME=VALUE" }

// Type implements pflag.Value.
func (i *idle) Type() string { return "time" }

// Type implements pflag.Value.
func (s size) Type() string { return "size" }

// Type implements pflag.Value.
func (m *mounts) Type() string { return "volume" }
