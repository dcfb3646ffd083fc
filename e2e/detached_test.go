package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestOneNodeKilled kills one of two nodes. A client that has a terminal on each keeps its connection,
// and the terminal on the other node answers all the time. The session of the killed node is
// unavailable, and lost once the node is started again: its terminal then ends with that error.
func TestOneNodeKilled(t *testing.T) {
	a := newSeparateCluster(t, separateOptions{nodes: 2, gateways: 1})
	srv := a.server(a.gateways[0].address)
	stays := openAs(t, srv, protocol.SessionCreate{})
	doomed := openAs(t, srv, protocol.SessionCreate{})
	for try := 0; a.owner(stays.id) == a.owner(doomed.id); try++ {
		if try == 8 {
			t.Fatal("all sessions are on one node")
		}
		check(t, doomed.client.DeleteSession(doomed.ctx, doomed.id))
		doomed = openAs(t, srv, protocol.SessionCreate{})
	}
	conn := stays.conn
	doomed.conn = conn
	kept, gone := stays.terminal(protocol.ChannelOpen{}), doomed.terminal(protocol.ChannelOpen{})
	kept.do("held=in-the-shell; echo rea''dy", "ready")
	gone.do("echo rea''dy", "ready")

	node := a.owner(doomed.id)
	check(t, node.stop(syscall.SIGKILL))
	for i := range 20 {
		kept.do(fmt.Sprintf("echo $((%d + 1000))", i), fmt.Sprint(i+1000))
	}
	if got := stays.run("ok", "6 * 7").result(t); got != "42" {
		t.Errorf("the kernel on the other node: %s", got)
	}
	if _, err := conn.Channels(doomed.ctx, doomed.id); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a session of the killed node: %v", err)
	}

	check(t, node.start())
	check(t, node.warm())
	gone.until("its error", func() bool { return gone.err != nil })
	if !fault.Is(gone.err, fault.SandboxLost) {
		t.Errorf("the terminal of the killed node ended with %v", gone.err)
	}
	kept.do("echo $held", "\rin-the-shell")
	if n := conn.Reconnects(); n != 0 {
		t.Errorf("the client has reconnected %d times", n)
	}
	again := openAs(t, srv, protocol.SessionCreate{})
	again.conn = conn
	again.terminal(protocol.ChannelOpen{}).do("echo ba''ck", "back")
}
