package wire

import (
	"testing"
)

// FuzzStart fails when a message of a client of envd, as JSON or protobuf, makes the gateway panic.
func FuzzStart(f *testing.F) {
	s := echo(NewSchema())[ProcessService]
	path := "/" + ProcessService + "/"
	for _, kind := range []string{"json", "proto"} {
		f.Add("Start", "application/connect+"+kind, envelope(`{"process":{"cmd":"a"}}`))
		f.Add("Start", "application/connect+"+kind, envelope("\x0a\x03\x0a\x01a"))
		f.Add("SendInput", "application/"+kind, []byte(`{"process":{"pid":1},"input":{"pty":"eA"}}`))
		f.Add("StreamInput", "application/connect+"+kind, append(envelope("{}"), envelope("x")...))
		f.Add("List", "application/"+kind, []byte("\xc2\x3e\x02hi"))
	}
	f.Add("Start", "application/connect+json", []byte{1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, method, kind string, body []byte) {
		switch method {
		case "Start", "Connect", "List", "SendInput", "StreamInput", "SendSignal", "Update":
		default:
			return
		}
		if a := call(s, path+method, kind, body); a.status == 500 && a.code() == "internal" {
			t.Errorf("%s %q: %+v", method, kind, a)
		}
	})
}
