package e2e

import (
	"fmt"
	"testing"
)

// TestNotebookOfKilledServer kills the node of a server while Chromium shows a notebook of a durable
// session. The page says from which copy the session continues.
func TestNotebookOfKilledServer(t *testing.T) {
	t.Parallel()
	srv, err := Start(deadline(t), "sessions: {durable: true, durable_every: 1s}\n"+
		"pool: {size: 1, languages: [python]}\n")
	check(t, err)
	t.Cleanup(func() { check(t, srv.Stop()) })
	node, err := srv.Child("node")
	check(t, err)
	driveApplication(t, srv, "../web/app/test/server/own/killed.test.ts",
		fmt.Sprint("SANDGATE_NODE=", node))
}
