package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// nodeOf returns the index of the server whose node has a volume, by its file.
func (c *cluster) nodeOf(name string) int {
	c.t.Helper()
	for i, s := range c.Servers {
		files, err := filepath.Glob(filepath.Join(s.Dir, "data", "node", "volumes", "*",
			"volume.json"))
		check(c.t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			check(c.t, err)
			var v struct{ Name string }
			check(c.t, json.Unmarshal(text, &v))
			if v.Name == name {
				return i
			}
		}
	}
	c.t.Fatalf("no node has the volume %s", name)
	return -1
}

// TestClusterVolumes uses volumes of two nodes over both gateways: every operation
// reaches the node that has the volume, and sessions that mount it run there.
func TestClusterVolumes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	ctx := deadline(t)
	var gateways []*wire.Client
	for _, s := range c.Servers {
		g, err := wire.New(s.URL, s.Token, wire.Options{})
		check(t, err)
		gateways = append(gateways, g)
	}
	// Volumes are placed by their names; both nodes get some. A node whose heartbeats are late on a
	// busy machine gets none for a moment.
	var names []string
	on := map[int]string{}
	tries := 0
	eventually(t, "volumes on both nodes", func() bool {
		name := fmt.Sprintf("volume-%05d", tries)
		g := gateways[tries%2]
		tries++
		_, err := g.CreateVolume(ctx, protocol.VolumeCreate{Name: name})
		check(t, err)
		node := c.nodeOf(name)
		if on[node] != "" && len(names) > 3 {
			check(t, g.DeleteVolume(ctx, name))
			return false
		}
		names = append(names, name)
		on[node] = name
		return len(on) == 2
	})
	for _, g := range gateways {
		all, err := g.Volumes(ctx)
		check(t, err)
		var listed []string
		for _, v := range all {
			listed = append(listed, v.Name)
		}
		if !slices.Equal(listed, names) {
			t.Errorf("listed %v, want %v", listed, names)
		}
	}
	for node, name := range on {
		_, err := gateways[node].CreateVolume(ctx, protocol.VolumeCreate{Name: name})
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("a second volume of one name: %v", err)
		}
		// Each gateway creates a session. Both are on the volume's node, and share it.
		var sessions []string
		for i, g := range gateways {
			made, err := g.CreateSession(ctx, protocol.SessionCreate{
				Language: "bash", Volumes: []protocol.Mount{{Name: name, Path: "/shared"}},
			})
			check(t, err)
			sessions = append(sessions, made.ID)
			if owner := c.owner(made.ID); owner != node {
				t.Errorf("the session %s is on node %d, and its volume on node %d", made.ID, owner,
					node)
			}
			conn, err := g.Connect(ctx)
			check(t, err)
			k, err := conn.Kernel(ctx, made.ID, made.Channels[0].ID)
			check(t, err)
			s := &session{t, ctx, g, conn, k, made.ID}
			s.run("ok", fmt.Sprintf("echo gateway-%d >> /shared/log", i))
			if want := "gateway-0\ngateway-1\n"[:10*(i+1)]; s.run("ok",
				"cat /shared/log").stdout != want {
				t.Errorf("the volume does not hold %q", want)
			}
			check(t, conn.Close())
		}
		lease, err := gateways[0].LeaseVolume(ctx, protocol.VolumeLease{Name: name})
		check(t, err)
		_, err = gateways[1].LeaseVolume(ctx, protocol.VolumeLease{Name: name})
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("a second lease over the other gateway: %v", err)
		}
		check(t, gateways[1].ReleaseVolume(ctx, name, lease.Token))
		for i, g := range gateways {
			v, err := g.Volume(ctx, name)
			check(t, err)
			if v.Sessions != 2 || v.Files == 0 {
				t.Errorf("gateway %d shows %+v", i, v)
			}
		}
		if err := gateways[1-node].DeleteVolume(ctx, name); !fault.Is(err, fault.Conflict) {
			t.Errorf("a volume that sessions mount was deleted: %v", err)
		}
		for i, id := range sessions {
			check(t, gateways[1-i].DeleteSession(ctx, id))
		}
	}
	_, err := gateways[0].CreateSession(ctx, protocol.SessionCreate{
		Language: "bash", Volumes: []protocol.Mount{{Name: on[0]}, {Name: on[1]}},
	})
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("a session with volumes of two nodes: %v", err)
	}
	for i, name := range names {
		check(t, gateways[i%2].DeleteVolume(ctx, name))
	}
	left, err := gateways[0].Volumes(ctx)
	if check(t, err); len(left) > 0 {
		t.Errorf("%v remain", left)
	}
}
