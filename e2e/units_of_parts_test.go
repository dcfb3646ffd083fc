package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestUnitsOfParts runs a node and a gateway with the rights of their units: the capabilities, no new
// privileges, and a read-only filesystem except for their folders and the blob store. A session works,
// is hibernated, and moves to another node.
func TestUnitsOfParts(t *testing.T) {
	t.Parallel() // most of the time it waits for nodes
	a := newSeparateCluster(t, separateOptions{
		nodes: 2, gateways: 1, settings: "pool: {size: 1, spare: 0, languages: [python]}\n",
	})
	node, gateway := a.nodes[0], a.gateways[0]
	script := func(service, user string, writable ...string) string {
		for setting, want := range map[string]string{
			"NoNewPrivileges": "yes", "ProtectSystem": "strict",
		} {
			if got := unitOf(t, service, setting); got != want {
				t.Errorf("%s of %s is %s", setting, service, got)
			}
		}
		text := "set -e\nmount --make-rslave /\n"
		for _, dir := range writable {
			text += fmt.Sprintf("mount --bind %[1]s %[1]s\n", dir)
		}
		return text + "mount -o remount,bind,ro /\n! touch /etc/is-writable 2>/dev/null\n" +
			"exec setpriv --no-new-privs --inh-caps=-all --bounding-set=" + bounding(t, service) +
			user + ` "$@"`
	}
	check(t, node.stop(syscall.SIGTERM))
	node.within = script("sandgate-node", "", node.dir, a.Dir+"/blobs")
	check(t, node.start())
	check(t, node.warm())
	check(t, gateway.stop(syscall.SIGTERM))
	gateway.within = script("sandgate-gateway", fmt.Sprintf(" --reuid=%d --regid=%d --clear-groups",
		gateway.user.Uid, gateway.user.Gid), gateway.dir)
	gateway.user = nil
	check(t, gateway.start())
	check(t, gateway.answers())
	check(t, a.nodes[1].stop(syscall.SIGTERM)) // so that the session is on the first node

	s := openAs(t, a.server(a.front.address()), protocol.SessionCreate{Language: "python"})
	s.run("ok", "x = 42\nopen('f', 'w').write('kept')")
	_, err := s.client.HibernateSession(s.ctx, s.id)
	check(t, err)
	if got := s.run("ok", "x, open('f').read()").result(t); got != "(42, 'kept')" {
		t.Errorf("resumed: %s", got)
	}
	check(t, a.nodes[1].start())
	check(t, a.nodes[1].warm())
	check(t, node.stop(syscall.SIGTERM))
	if got := s.run("ok", "x, open('f').read()").result(t); got != "(42, 'kept')" {
		t.Errorf("on the other node: %s", got)
	}
	if on := a.owner(s.id); on != a.nodes[1] {
		t.Errorf("the session did not move")
	}
	a.clean()
}
