package idempotency

import (
	"context"
	"sync"
)

// The bounds of notes. A turn without a note finds out by itself.
const (
	maxNote  = 256 // bytes; a longer note is not kept
	maxNotes = 10_000
)

// notes are the notes of turns for the next ones, by the ids of the records. They are only in memory.
// The zero value is empty.
type notes struct {
	mu  sync.Mutex // guards all
	all map[string]note
}

type note struct {
	text string
	life context.Context
}

// remove removes a note and returns it; empty if there is none for the life.
func (x *notes) remove(id string, life context.Context) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.all[id]
	delete(x.all, id)
	if n.life != life || life.Err() != nil {
		return ""
	}
	return n.text
}

// put keeps a note. It drops another one if there are too many.
func (x *notes) put(id string, n note) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = map[string]note{}
	}
	x.all[id] = n
	for other := range x.all {
		if len(x.all) <= maxNotes {
			break
		}
		if other != id {
			delete(x.all, other)
		}
	}
}

// ReadNote returns the note that the turn before this one has left, if the turns' object, such as a
// session on this node, still has the same life. A note is read once.
func (t *Turn) ReadNote(life context.Context) string {
	t.life = life
	return t.s.notes.remove(t.r.ID, life)
}

// LeaveNote leaves a note for the next turn, before the end of this one. It has no effect unless the
// turn has read the note for it.
func (t *Turn) LeaveNote(text string) {
	if t.life != nil && text != "" && len(text) <= maxNote {
		t.s.notes.put(t.r.ID, note{text, t.life})
	}
}
