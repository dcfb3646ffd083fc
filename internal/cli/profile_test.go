package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/server"

	"github.com/sandgate/sandgate/internal/profile"
)

// TestProfileStaysAtHome: root writes the profile, and follows no link that leads out of the user's
// home.
func TestProfileStaysAtHome(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	who := server.Caller{UID: os.Getuid(), GID: os.Getgid(), Home: home}
	want := profile.Profile{URL: "http://127.0.0.1:1", Token: "sgt_x"}
	if err := profile.Write(who.Home, who.UID, who.GID, want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, profile.Path)
	if got, err := profile.Read(path); err != nil || got != want {
		t.Errorf("read %+v, %v", got, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	c := &cli{home: home, env: []string{"HOME=" + home}}
	if out, _, _ := c.run(t, "", "token"); out != "sgt_x\n" {
		t.Errorf("the command line reads %q", out)
	}
	if err := os.RemoveAll(filepath.Join(home, ".config")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(home, ".config")); err != nil {
		t.Fatal(err)
	}
	if err := profile.Write(who.Home, who.UID, who.GID, want); err == nil {
		t.Error("a link out of the home was followed")
	}
	if files, _ := os.ReadDir(outside); len(files) != 0 {
		t.Errorf("something was written outside: %v", files)
	}
}
