package session

import (
	"github.com/sandgate/sandgate/langs/golang/kernel/front"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

// help answers what people ask while they write.
func (s *Session) help(q wire.Request, r *wire.Reply) {
	switch q.Op {
	case "is_complete":
		r.IsComplete, r.Indent = front.IsComplete(q.Code)
	}
}
