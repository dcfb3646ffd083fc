package files

import (
	"os/user"
	"strconv"
	"sync"

	"github.com/sandgate/sandgate/internal/agent/wire"
)

// maxAccounts is how many names of users, and of groups, the agent remembers.
const maxAccounts = 256

// accounts remembers the names of users and groups in the sandbox. The zero value is empty.
type accounts struct {
	mu     sync.Mutex // guards all below
	users  map[uint32]string
	groups map[uint32]string
}

// owned adds the names of the owner and of the group.
func (s *Service) owned(f wire.FileStat) wire.FileStat {
	if f.Path == "" {
		return f // there was an error
	}
	a := &s.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.users == nil {
		a.users, a.groups = map[uint32]string{}, map[uint32]string{}
	}
	f.Owner = nameOf(a.users, f.UID, func(id string) (string, bool) {
		u, err := user.LookupId(id)
		if err != nil {
			return "", false
		}
		return u.Username, true
	})
	f.Group = nameOf(a.groups, f.GID, func(id string) (string, bool) {
		g, err := user.LookupGroupId(id)
		if err != nil {
			return "", false
		}
		return g.Name, true
	})
	return f
}

// nameOf returns the name with a number. A number without a name is its own name.
func nameOf(known map[uint32]string, id uint32, look func(string) (string, bool)) string {
	if name, ok := known[id]; ok {
		return name
	}
	number := strconv.FormatUint(uint64(id), 10)
	name, found := look(number)
	if !found {
		name = number
	}
	if len(known) < maxAccounts {
		known[id] = name
	}
	return name
}
