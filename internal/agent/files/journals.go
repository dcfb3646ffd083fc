package files

import (
	"sync"

	"github.com/sandgate/sandgate/protocol/fault"
)

// maxJournals is the most folders whose changes are recorded.
const maxJournals = 8

// journals are the records of changes, by their folders.
type journals struct {
	// become gives the calling goroutine a thread with the user's rights.
	become func() error

	mu  sync.Mutex // guards all; taken before a journal's mu
	all map[string]*journal
}

func newJournals(become func() error) *journals {
	return &journals{become: become, all: map[string]*journal{}}
}

// find returns the journal of a folder. It has not begun if nobody has asked it yet. Errors:
// Exhausted.
func (x *journals) find(root string) (*journal, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if j := x.all[root]; j != nil {
		return j, nil
	}
	for other, j := range x.all {
		if len(x.all) >= maxJournals && !j.begun() {
			delete(x.all, other)
		}
	}
	if len(x.all) >= maxJournals {
		return nil, fault.New(fault.Exhausted, "agent.file.changes",
			"the changes of %d folders are recorded, which is the limit", maxJournals)
	}
	j := &journal{root: root, become: x.become}
	x.all[root] = j
	return j, nil
}

// leaveOut is journal.leaveOut for all journals.
func (x *journals) leaveOut(path string) {
	for _, j := range x.list() {
		j.leaveOut(path)
	}
}

// list returns the journals at this moment.
func (x *journals) list() (list []*journal) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, j := range x.all {
		list = append(list, j)
	}
	return list
}
