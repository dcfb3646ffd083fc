package store

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Owner is the skill, the agent or the user that a file belongs to in LibreChat, as the client that
// uploaded it has said. The zero
// value belongs to its user alone.
type Owner struct {
	// Kind is skill, agent or user; empty if the client has not said.
	Kind string
	// ID is the id of the skill, agent or user, at most MaxOwnerID bytes.
	ID string
	// Version is the version of a skill.
	Version int
	// ReadOnly is true for a file that programs must not change.
	ReadOnly bool
}

// MaxOwnerID is the longest id of an owner, in bytes.
const MaxOwnerID = 128

// Check checks an owner that a client names.
func (o Owner) Check() error {
	const op = "librechat.owner"
	switch o.Kind {
	case "", "agent", "user", "skill":
	default:
		return fault.Invalid(op, "kind", "it is skill, agent or user")
	}
	if len(o.ID) > MaxOwnerID {
		return fault.Invalid(op, "id", "it has at most %d bytes", MaxOwnerID)
	}
	if o.Version < 0 || o.Version != 0 && o.Kind != "skill" {
		return fault.Invalid(op, "version", "only a skill has a version, from 0")
	}
	return nil
}

// Admits reports whether a client that names a file of owner asked may have a file of owner o. An
// owner that one of both does not state is not compared.
func (o Owner) Admits(asked Owner) bool {
	if o.Kind == "" || asked.Kind == "" {
		return true
	}
	return o.Kind == asked.Kind && (o.ID == "" || asked.ID == "" || o.ID == asked.ID) &&
		o.Version == asked.Version
}

// folderName returns the owner as the name of a folder.
func (o Owner) folderName() string {
	mark := "w"
	if o.ReadOnly {
		mark = "r"
	}
	text := o.Kind + " " + strconv.Itoa(o.Version) + " " + o.ID
	return mark + base64.RawURLEncoding.EncodeToString([]byte(text))
}

// decodeOwner reads the name of a folder.
func decodeOwner(name string) (o Owner, ok bool) {
	if name == "" {
		return o, false
	}
	text, err := base64.RawURLEncoding.DecodeString(name[1:])
	parts := strings.SplitN(string(text), " ", 3)
	if err != nil || len(parts) != 3 {
		return o, false
	}
	o.ReadOnly = name[0] == 'r'
	o.Kind, o.ID = parts[0], parts[2]
	o.Version, err = strconv.Atoi(parts[1])
	return o, err == nil
}
