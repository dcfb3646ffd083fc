package e2e

import (
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// TestRepeatedAnswerReachesOneQuestion sends the answer to the first of two questions once more
// while the second one waits.
func TestRepeatedAnswerReachesOneQuestion(t *testing.T) {
	s := open(t, server)
	answers := []string{"one", "two"}
	out := s.collect(s.begin("x = input('a? '); y = input('b? '); print([x, y])"),
		func(r frame.Record) {
			var m message.Message
			var ask message.InputRequest
			if r.Kind != frame.KindMessage || json.Unmarshal(r.Payload, &m) != nil ||
				m.Type != message.InputRequestType {
				return
			}
			check(t, json.Unmarshal(m.Content, &ask))
			for n := uint32(1); n <= ask.Request; n++ {
				check(t, s.kernel.Input(s.ctx, protocol.InputReply{
					Cell: r.Cell, Request: n, Value: answers[n-1],
				}))
			}
			err := s.kernel.Input(s.ctx, protocol.InputReply{
				Cell: r.Cell, Request: ask.Request, Value: "other",
			})
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("another answer: %v, want conflict", err)
			}
		})
	if out.stdout != "['one', 'two']\n" {
		t.Errorf("the program got %s", out.stdout)
	}
}
