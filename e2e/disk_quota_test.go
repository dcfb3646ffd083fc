package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// tenantClient returns a client with an owner's key of a tenant of the shared server.
func tenantClient(t *testing.T, root *wire.Client, tenant string) *wire.Client {
	t.Helper()
	k, err := root.CreateKey(t.Context(), protocol.KeyCreate{Tenant: tenant, Role: "owner"})
	check(t, err)
	t.Cleanup(func() { check(t, root.RevokeKey(context.Background(), k.Key.ID)) })
	c, err := wire.New(server.URL, k.Secret, wire.Options{})
	check(t, err)
	return c
}

func overQuota(t *testing.T, what, quota string, err error) {
	t.Helper()
	p := fault.PublicOf(err)
	if p.Kind != fault.Exhausted || p.Field != "quota."+quota || p.RetryAfter == 0 {
		t.Errorf("%s: %v, not exhausted by %s", what, err, quota)
	}
}

// TestQuotaOfDiskOfEveryKind: the output of channels and the content of volumes count for the
// quota of disk space. At the quota a volume becomes read-only and nothing new is made. Another
// tenant continues, and what is deleted is free again.
func TestQuotaOfDiskOfEveryKind(t *testing.T) {
	ctx := t.Context()
	root, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	const quota = 24 << 20
	check(t, root.SetQuota(ctx, "disk-a", &protocol.Quota{DiskBytes: quota}))
	defer func() { check(t, root.SetQuota(context.Background(), "disk-a", nil)) }()
	a, b := tenantClient(t, root, "disk-a"), tenantClient(t, root, "disk-b")
	use := func() (bytes int64) {
		all, err := root.Tenants(ctx)
		check(t, err)
		for _, one := range all {
			if one.Name == "disk-a" {
				bytes = one.Use.DiskBytes
			}
		}
		return bytes
	}
	volume := func(c *wire.Client) protocol.Session {
		t.Helper()
		_, err := c.CreateVolume(ctx, protocol.VolumeCreate{Name: "v"})
		check(t, err)
		s, err := c.CreateSession(ctx, protocol.SessionCreate{
			Language: "bash", Volumes: []protocol.Mount{{Name: "v"}},
		})
		check(t, err)
		return s
	}
	run := func(c *wire.Client, s protocol.Session, code string) string {
		t.Helper()
		var out strings.Builder
		check(t, c.Run(ctx, protocol.RunRequest{Session: s.ID, Language: "bash", Code: code},
			func(e protocol.RunEvent) error {
				out.WriteString(e.Text)
				return nil
			}))
		return out.String()
	}
	s := volume(a)
	run(a, s, "head -c 9M /dev/zero | tr '\\0' x")
	eventually(t, "the output of the channel counts", func() bool { return use() > 4<<20 })
	const write = `for i in $(seq 1 600); do head -c 256K /dev/zero >/volumes/v/$i || break; sleep 0.02; done`
	if got := run(a, s, write); !strings.Contains(got, "Read-only file system") {
		t.Errorf("writing beyond the quota printed %q", got)
	}
	if n := use(); n < quota || n > quota+(32<<20) {
		t.Errorf("the tenant holds %d bytes, its quota is %d", n, quota)
	}
	_, err = a.CreateVolume(ctx, protocol.VolumeCreate{Name: "w"})
	overQuota(t, "another volume", "disk_bytes", err)
	_, err = a.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
	overQuota(t, "another session", "disk_bytes", err)

	other := volume(b)
	if got := run(b, other, "head -c 32M /dev/zero >/volumes/v/x && echo written"); got != "written\n" {
		t.Errorf("the other tenant's program printed %q", got)
	}
	check(t, b.DeleteSession(ctx, other.ID))
	check(t, b.DeleteVolume(ctx, "v"))

	check(t, a.DeleteSession(ctx, s.ID))
	check(t, a.DeleteVolume(ctx, "v"))
	eventually(t, "nothing is held any more", func() bool { return use() == 0 })
	_, err = a.CreateVolume(ctx, protocol.VolumeCreate{Name: "w"})
	check(t, err)
	check(t, a.DeleteVolume(ctx, "w"))
}

// TestQuotaOfSessionsKeptAlive: the sessions of a tenant that are kept alive have a quota, at their
// creation and at an update.
func TestQuotaOfSessionsKeptAlive(t *testing.T) {
	ctx := t.Context()
	root, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	check(t, root.SetQuota(ctx, "kept", &protocol.Quota{KeepAlive: 1}))
	defer func() { check(t, root.SetQuota(context.Background(), "kept", nil)) }()
	c := tenantClient(t, root, "kept")
	first, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "bash", KeepAlive: true})
	check(t, err)
	_, err = c.CreateSession(ctx, protocol.SessionCreate{Language: "bash", KeepAlive: true})
	overQuota(t, "a second one", "keep_alive", err)
	second, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
	check(t, err)
	yes, no := true, false
	_, err = c.UpdateSession(ctx, protocol.SessionUpdate{Session: second.ID, KeepAlive: &yes})
	overQuota(t, "an update", "keep_alive", err)
	_, err = c.UpdateSession(ctx, protocol.SessionUpdate{Session: first.ID, KeepAlive: &no})
	check(t, err)
	_, err = c.UpdateSession(ctx, protocol.SessionUpdate{Session: second.ID, KeepAlive: &yes})
	check(t, err)
	for _, s := range []protocol.Session{first, second} {
		check(t, c.DeleteSession(ctx, s.ID))
	}
}
