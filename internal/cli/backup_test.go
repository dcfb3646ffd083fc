package cli

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
)

// tree returns the content of a folder: modes and contents by name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if target, err := os.Readlink(path); err == nil {
			text += " " + target
		}
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(b)
		}
		all[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(all, ".")
	return all
}

func fill(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string]string{
		"token": "sgt_secret", "audit/audit.jsonl": "{}\n", "usage/usage.jsonl": "{}\n",
		"node/sessions/s_1/session.json":       "{}",
		"node/sessions/s_1/snapshot/pages.img": strings.Repeat("page", 100_000),
		"node/logs/s_1/k1/000":                 "output", "node/snapshots/python/pages.img": "warm",
		"bin/runsc": "program", "node/later/x": "of a later version",
		"node/instance": "id\n", "node/process": "{}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Users may have links that lead anywhere, and any name, in volumes.
	volume := filepath.Join(dir, "node/volumes/v_1/data")
	for _, err := range []error{
		os.MkdirAll(volume, 0o755), os.Symlink("/etc/passwd", filepath.Join(volume, "out")),
		os.Symlink("a\nb\\", filepath.Join(volume, "in")),
		os.WriteFile(filepath.Join(volume, "a\nb\\"), []byte("odd"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackupAndRestore(t *testing.T) {
	c := newCLI(t, nil)
	dir := t.TempDir()
	data, run := filepath.Join(dir, "data"), filepath.Join(dir, "run")
	fill(t, data)
	want := tree(t, data)
	// The original may still run: a restored node is another instance and another process.
	delete(want, "node/instance")
	delete(want, "node/process")
	for name := range want {
		if name == "bin" || strings.HasPrefix(name, "bin/") ||
			strings.HasPrefix(name, "node/snapshots") {
			delete(want, name)
		}
	}
	for _, name := range []string{"a.tar", "b.tar.gz"} {
		file := filepath.Join(dir, name)
		if out, errs, code := c.run(t, "", "backup", "--data-dir", data, "--run-dir", run,
			file); code != 0 {
			t.Fatalf("%d: %s%s", code, out, errs)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		to := filepath.Join(dir, "to-"+name)
		if out, errs, code := c.run(t, "", "restore", "--data-dir", to, "--run-dir", run,
			file); code != 0 || !strings.Contains(out, "10 files") {
			t.Fatalf("%d: %s%s", code, out, errs)
		}
		got := tree(t, to)
		for n, text := range want {
			if got[n] != text {
				t.Errorf("%s: %s is %.40q, want %.40q", name, n, got[n], text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d entries, want %d", name, len(got), len(want))
		}
		if _, errs, code := c.run(t, "", "restore", "--data-dir", to, "--run-dir", run,
			file); code != 207 || !strings.Contains(errs, "not empty") {
			t.Errorf("over another: %d, %s", code, errs)
		}
	}
}

// TestBackupOfRunningServer: its sessions are not on disk, so the backup must list them as left
// out.
func TestBackupOfRunningServer(t *testing.T) {
	c := newCLI(t, nil)
	dir := t.TempDir()
	data, run := filepath.Join(dir, "data"), filepath.Join(dir, "run")
	fill(t, data)
	cfg := mustConfig(t, data, run)
	unlock, err := admin.LockStopped(cfg) // like a node does
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	file := filepath.Join(dir, "b.tar")
	for _, command := range []string{"backup", "restore"} {
		if _, errs, code := c.run(t, "", command, "--data-dir", data, "--run-dir", run,
			file); code != 207 || !strings.Contains(errs, "stop it first") {
			t.Errorf("%s: %d, %s", command, code, errs)
		}
	}
	if _, errs, code := c.run(t, "", "backup", "--without-sessions", "--data-dir", data,
		"--run-dir", run, file); code != 0 {
		t.Fatalf("%d, %s", code, errs)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte("session.json")) || !bytes.Contains(b, []byte("sgt_secret")) {
		t.Error("what is in it is not what was asked for")
	}
}

// TestRestoreRefuses: a file that was cut short, changed or made by somebody else changes nothing
// in the data directory or outside of it.
func TestRestoreRefuses(t *testing.T) {
	c := newCLI(t, nil)
	dir := t.TempDir()
	data, run := filepath.Join(dir, "data"), filepath.Join(dir, "run")
	fill(t, data)
	file := filepath.Join(dir, "b.tar")
	if _, errs, code := c.run(t, "", "backup", "--data-dir", data, "--run-dir", run,
		file); code != 0 {
		t.Fatal(errs)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	with := func(h *tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		r := tar.NewReader(bytes.NewReader(good))
		for {
			e, err := r.Next()
			if err == io.EOF {
				break
			}
			if e.Name == "SHA256SUMS" {
				_ = w.WriteHeader(h)
			}
			_ = w.WriteHeader(e)
			_, _ = io.Copy(w, r)
		}
		_ = w.Close()
		return b.Bytes()
	}
	for name, b := range map[string][]byte{
		"cut":     good[:len(good)/2],
		"no end":  good[:bytes.LastIndex(good, []byte("SHA256SUMS"))&^511],
		"changed": bytes.Replace(good, []byte("pagepagepage"), []byte("pagepageedge"), 1),
		"other":   []byte("no tar at all"),
		"outside": with(&tar.Header{Name: "../outside", Typeflag: tar.TypeReg, Mode: 0o600}),
		"absolute": with(&tar.Header{
			Name: filepath.Join(dir, "outside"), Typeflag: tar.TypeReg,
			Mode: 0o600,
		}),
		"link":     with(&tar.Header{Name: "link", Linkname: dir, Typeflag: tar.TypeSymlink}),
		"device":   with(&tar.Header{Name: "device", Typeflag: tar.TypeChar, Mode: 0o600}),
		"unlisted": with(&tar.Header{Name: "more", Typeflag: tar.TypeReg, Mode: 0o600}),
	} {
		bad := filepath.Join(dir, "bad.tar")
		if err := os.WriteFile(bad, b, 0o600); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, "to")
		if _, errs, code := c.run(t, "", "restore", "--data-dir", to, "--run-dir", run,
			bad); code != 202 {
			t.Errorf("%s: %d, %s", name, code, errs)
		}
		if left := tree(t, to); len(left) > 0 {
			t.Errorf("%s: left are %v", name, left)
		}
		if _, err := os.Stat(filepath.Join(dir, "outside")); err == nil {
			t.Errorf("%s: something was written outside", name)
		}
	}
}

func mustConfig(t *testing.T, data, run string) *config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.DataDir, cfg.RunDir = data, run
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return cfg
}
