package queue

import (
	"encoding/json"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/stream"
)

// messages writes the queue's own messages to a log. It ignores errors of the log: a log that has
// ended accepts nothing, and its readers know that it has ended.
type messages struct{ log Log }

func (m messages) status(cell uint32, state string) {
	m.message(cell, kernel.StatusType, kernel.Status{State: state})
}

func (m messages) message(cell uint32, kind string, content any) {
	c, err := json.Marshal(content)
	if err != nil { // only a malformed payload from a driver can cause this
		c, _ = json.Marshal(kernel.Error{
			EName: "Internal", EValue: err.Error(),
			Traceback: []string{},
		})
	}
	body, _ := json.Marshal(kernel.Message{Type: kind, Content: c}) // both parts are valid
	_, _ = m.log.Append(stream.KindMessage, cell, body)
}

func (m messages) event(cell uint32, event map[string]any) {
	body, _ := json.Marshal(event) // strings and numbers
	_, _ = m.log.Append(stream.KindEvent, cell, body)
}
