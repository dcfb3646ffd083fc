package noderouter

import (
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestTurnsStayWithTheirSession: a turn goes to the node of its session, and not to the node that
// once had the key.
func TestTurnsStayWithTheirSession(t *testing.T) {
	row := protocol.Operation{Name: protocol.OpRepeatBegin}
	for _, turn := range []bool{false, true} {
		params, err := json.Marshal(protocol.RepeatBegin{Operation: "x", Key: "s_1", Turn: turn})
		if err != nil {
			t.Fatal(err)
		}
		if key := keyOf(t.Context(), alice, row, params); (key == "") != turn {
			t.Errorf("turn %t has the key %q", turn, key)
		}
	}
}
