package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestListenPrivately(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := listenPrivately(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
