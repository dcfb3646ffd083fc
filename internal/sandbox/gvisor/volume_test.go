package gvisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

func volumeSpec() Spec {
	spec := testSpec()
	spec.Volumes = true
	return spec
}

func expect(t *testing.T, g guest, want, format string, args ...any) {
	t.Helper()
	if got := g.ask(format, args...); !strings.Contains(got, want) {
		t.Errorf(format+" said %q, not %q", append(args, got, want)...)
	}
}

func TestVolumes(t *testing.T) {
	r := newRuntime(t)
	one, two := t.TempDir(), t.TempDir()
	a, b := boot(t, r, volumeSpec()), boot(t, r, volumeSpec())
	expect(t, a, "<nil>", "ls /volumes")
	// the guest cannot use the memory of the state directory
	expect(t, a, "read-only", "write /volumes/stray x")
	fatal(t, a.Mount(t.Context(), Volume{Name: "v", Dir: one}, Volume{Name: "w.2", Dir: two}))
	fatal(t, b.Mount(t.Context(), Volume{Name: "other", Dir: one, ReadOnly: true}))
	expect(t, a, "v w.2 <nil>", "ls /volumes")
	expect(t, a, "<nil>", "write /volumes/v/x hello")
	expect(t, b, `"hello"`, "cat /volumes/other/x")
	expect(t, a, "<nil>", "write /volumes/v/x hello2")
	expect(t, b, `"hello2"`, "cat /volumes/other/x") // files are not cached
	expect(t, b, "read-only", "write /volumes/other/x bye")
	expect(t, b, "read-only", "remove /volumes/other/x")
	expect(t, b, "no such file", "cat /volumes/v/x")
	destroy(t, a.Sandbox)
	destroy(t, b.Sandbox)
	if data, err := os.ReadFile(filepath.Join(one, "x")); string(data) != "hello2" || err != nil {
		t.Errorf("what a volume holds does not outlive its sandboxes: %q, %v", data, err)
	}
}

// TestHostileVolume makes symbolic links in a volume. The host must follow none of them.
func TestHostileVolume(t *testing.T) {
	r := newRuntime(t)
	outside, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	fatal(t, os.WriteFile(secret, []byte("the host's"), 0o644))
	a := boot(t, r, volumeSpec())
	fatal(t, a.Mount(t.Context(), Volume{Name: "v", Dir: dir}))
	for name, to := range map[string]string{
		"absolute": secret, "folder": outside,
		"up": "../../../../../../../.." + secret, "hostname": "/etc/hostname",
	} {
		expect(t, a, "<nil>", "link %s /volumes/v/%s", to, name)
	}
	for _, path := range []string{"absolute", "folder/secret", "up", "hostname"} {
		expect(t, a, "no such file", "cat /volumes/v/%s", path)
	}
	expect(t, a, "no such file", "write /volumes/v/folder/made x")
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("the guest has written to the host: %v", entries)
	}
	destroy(t, a.Sandbox)
	// A link instead of a volume's directory is refused.
	fatal(t, os.Symlink(outside, filepath.Join(dir, "itself")))
	b := boot(t, r, volumeSpec())
	_ = b.Mount(t.Context(), Volume{Name: "v", Dir: filepath.Join(dir, "itself")})
	if got := b.ask("cat /volumes/v/secret"); strings.Contains(got, "host's") {
		t.Errorf("a link was mounted as what it points to: %s", got)
	}
	destroy(t, b.Sandbox)
	for _, name := range []string{"", "..", "a/b", ".hidden", strings.Repeat("x", 65)} {
		if err := checkVolume("test",
			Volume{Name: name, Dir: dir}); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

// TestVolumeSnapshot checkpoints a sandbox that has a file of a volume open, and restores it into a
// sandbox with the same volume.
func TestVolumeSnapshot(t *testing.T) {
	r := newRuntime(t)
	dir, empty, where := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "snapshot")
	volume := Volume{Name: "v", Dir: dir}
	a := boot(t, r, volumeSpec())
	fatal(t, a.Mount(t.Context(), volume))
	expect(t, a, "<nil>", "hold /volumes/v/log")
	expect(t, a, "<nil>", "append one")
	fatal(t, a.Checkpoint(t.Context(), where))
	destroy(t, a.Sandbox)

	_, err := r.Restore(t.Context(), where, testSpec(), CheckAll)
	if fault.KindOf(err) != fault.Conflict {
		t.Errorf("restored without volumes: %v", err)
	}
	again := func(v Volume) (guest, error) {
		s, err := r.Create(t.Context(), volumeSpec())
		fatal(t, err)
		fatal(t, s.Mount(t.Context(), v))
		return talk(t, s), s.Restore(t.Context(), where, CheckAll)
	}
	b, err := again(volume)
	fatal(t, err)
	expect(t, b, "<nil>", "append two")
	expect(t, b, `"onetwo"`, "cat /volumes/v/log")
	destroy(t, b.Sandbox)
	c, err := again(Volume{Name: "v", Dir: empty})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.PublicOf(err).Message,
		"/volumes/v/log") {
		t.Errorf("restored without the file that is open: %v", err)
	}
	destroy(t, c.Sandbox)
	// When the missing file is put back, the same snapshot can be restored.
	d, err := again(volume)
	fatal(t, err)
	destroy(t, d.Sandbox)
}

// TestLostThread checks that the process stays in its own mount namespace, whatever thread a mount
// was made on.
func TestLostThread(t *testing.T) {
	r := newRuntime(t)
	g := boot(t, r, volumeSpec())
	was := readLink(t, "/proc/self/ns/mnt")
	for range 200 {
		fatal(t, inMountsOf(g.container.GoferPid.Load(), func() error { return nil }))
	}
	if is := readLink(t, "/proc/self/ns/mnt"); is != was {
		t.Errorf("the process is in %s, not in %s", is, was)
	}
	destroy(t, g.Sandbox)
	fatal(t, r.Close(t.Context()))
	if mounts := readFile(t, "/proc/self/mountinfo"); strings.Contains(mounts, r.cfg.StateDir) {
		t.Errorf("mounts remain below %s", r.cfg.StateDir)
	}
}

func TestVolumeLeaks(t *testing.T) {
	r := newRuntime(t)
	dir := t.TempDir()
	cycle := func() {
		for _, end := range []func(g guest){
			func(guest) {},
			func(g guest) { g.Kill("test"); g.awaitEnd() },
			func(g guest) { g.write("exit 0"); g.awaitEnd() },
			func(g guest) { fatal(t, g.Checkpoint(t.Context(), filepath.Join(t.TempDir(), "s"))) },
		} {
			g := boot(t, r, volumeSpec())
			fatal(t, g.Mount(t.Context(), Volume{Name: "v", Dir: dir}))
			expect(t, g, "<nil>", "hold /volumes/v/f")
			end(g)
			destroy(t, g.Sandbox)
		}
	}
	cycle() // some things are created once
	before := take(t, r.cfg.StateDir)
	cycle()
	before.compare(t, take(t, r.cfg.StateDir))
}
