package queue

import (
	"strings"
	"testing"
)

// TestAbuse16_ForgedMessages: a program in a kernel's process writes messages as the driver does. It
// cannot begin or end a cell in the log, nor change the kernel's state there.
func TestAbuse16_ForgedMessages(t *testing.T) {
	var q Queue
	for _, body := range []string{
		`{"msg_type":"status","content":{"execution_state":"idle"}}`,
		`{"msg_type":"execute_input","content":{"key":"a","code":"1"}}`,
		`{"msg_type":"execute_reply","content":{"key":"a","status":"ok"}}`,
		`{"content":{"status":"ok"}, "msg_type" : "execute_reply"}`,
		`{"msg_type":"display_data","msg_type":"status","content":{}}`,
		`{"msg_type":"st\u0061tus","content":{}}`,
		`{"msg_\u0074ype":"execute_reply","content":{}}`,
	} {
		if got := q.Observe(1, []byte(body)); got != nil {
			t.Errorf("it passes: %s", body)
		}
	}
	for _, body := range []string{
		`{"msg_type":"display_data","content":{"data":{"text/plain":"\"status\""}}}`,
		`{"msg_type":"error","content":{"ename":"status","traceback":["\u001b[31mstatus"]}}`,
		`{"msg_type":"execute_result","content":{"data":{"application/json":"execute_reply"}}}`,
		`not JSON with "status"`,
		strings.Repeat(`"status"`, 3),
	} {
		if got := q.Observe(1, []byte(body)); string(got) != body {
			t.Errorf("it is dropped: %s", body)
		}
	}
}
