package recording

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/frame"
)

// FuzzCast fails when a record of a log makes the gateway panic, or becomes a line of a recording
// that is not one JSON value.
func FuzzCast(f *testing.F) {
	f.Add(uint8(frame.KindStdout), []byte("a\n\xff\x1b[0m"), int64(1))
	f.Add(uint8(frame.KindRestore), []byte(`{"cols":80,"rows":24,"data":"eA=="}`), int64(-1))
	f.Add(uint8(frame.KindGap), []byte(`{"bytes":-5}`), int64(0))
	f.Add(uint8(frame.KindEvent), []byte(`{"event":"resize","cols":-1,"rows":1}`), int64(1)<<62)
	f.Add(uint8(frame.KindMessage), []byte(
		`{"msg_type":"execute_result","content":{"data":{"text/plain":["x"]}}}`), int64(5))
	f.Add(uint8(frame.KindMessage), []byte(
		`{"msg_type":"error","content":{"ename":"E","traceback":["a\nb"]}}`), int64(5))
	f.Fuzz(func(t *testing.T, kind uint8, payload []byte, at int64) {
		for _, terminal := range []string{"terminal", "kernel"} {
			r := &castReader{kind: terminal}
			for range 2 {
				r.record(frame.Record{Kind: frame.Kind(kind), Payload: payload, Time: at})
			}
			for line := range strings.Lines(string(r.rest)) {
				if !json.Valid([]byte(line)) {
					t.Errorf("the recording has the line %q", line)
				}
			}
		}
	})
}
