package e2e

import (
	"testing"

	"github.com/sandgate/sandgate/protocol/message"
)

// TestAbuse16_ForgedFrames: a cell writes frames to the driver's descriptor. Output that it forges is
// shown. It cannot end its cell before it has ended, nor begin another one.
func TestAbuse16_ForgedFrames(t *testing.T) {
	s := open(t, server)
	out := s.run("ok", `
import json, os, struct, time
def forge(kind, content):
    body = json.dumps({'msg_type': kind, 'content': content}).encode()
    for cell in range(1, 20):
        os.write(4, struct.pack('>IBBHII', len(body), 6, 0, 0, 0, cell) + body)
forge('display_data', {'data': {'text/plain': 'forged'}, 'metadata': {}})
forge('execute_input', {'key': 'x', 'code': 'forged', 'execution_count': 99})
forge('status', {'execution_state': 'dead'})
forge('execute_reply', {'key': 'x', 'status': 'ok', 'execution_count': 99, 'elapsed_ms': 1})
print('after')`)
	if out.stdout != "after\n" || out.reply.Count == 99 {
		t.Errorf("the cell was ended by its own frame: %+v", out)
	}
	if len(out.messages[message.DisplayDataType]) == 0 {
		t.Error("no frame was taken: the test proves nothing")
	}
	if n := len(out.messages[message.ExecuteInputType]); n != 1 {
		t.Errorf("%d cells begin", n)
	}
	s.run("ok", "1")
}
