package main

import (
	"testing"

	"github.com/sandgate/sandgate/kernel"
)

// TestShare stores a table as CSV and gets it again, also after the shell was replaced.
func TestShare(t *testing.T) {
	r := newRig(t)
	for i, code := range []string{
		"type sandgate >&2; printf 'a,b\n1,x\n,\"y,\"\n' | sandgate put --csv share_test",
		`[[ $(sandgate get share_test) == $'a,b\n1,x\n,"y,"' ]]`,
		"kill -9 $$ || true",
		"sandgate get share_test | grep -q 1,x",
		"rm /tmp/.sandgate-values/share_test.json; [[ ! $(sandgate get share_test 2>/dev/null) ]]",
	} {
		id := uint64(i + 1)
		reply := r.ask(kernel.Request{ID: id, Op: "execute", Cell: uint32(id), Code: code})
		if i != 2 && (reply.Status != "ok" || reply.ExitCode != nil) {
			t.Errorf("%s: %+v", code, reply)
		}
	}
}
