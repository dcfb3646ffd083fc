package server

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestSystemdLearnsOfParts: a part that runs alone reports to systemd that it is ready, with its last
// line of status.
func TestSystemdLearnsOfParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	node := &statusPipe{last: statusWarm}
	node.report(statusReady)
	(&statusPipe{}).report(statusWarm) // a part of serve
	if err := ln.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n, err := ln.Read(buf); err == nil {
		t.Errorf("a node whose pool is not full reports %q", buf[:n])
	}
	if err := ln.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	node.report(statusWarm)
	if n, err := ln.Read(buf); err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("systemd gets %q, %v", buf[:n], err)
	}
}
