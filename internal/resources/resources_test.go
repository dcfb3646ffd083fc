package resources

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/cluster"
)

// TestDescribe: a description has all resources, and is small.
func TestDescribe(t *testing.T) {
	m := Meter{
		Memory: 64 << 30, Used: func() int64 { return 3<<30 + 1 }, Dir: t.TempDir(),
		Image: "0123456789abcdef0123", Zone: "z1",
	}
	info := cluster.NodeInfo{Sessions: 3, Most: 16}
	m.Describe(&info)
	if info.Sessions != 3 || info.Zone != "z1" || info.Image != m.Image ||
		info.Memory != m.Memory || info.MemoryUsed != 3<<30+1 || info.Disk <= 0 ||
		info.DiskFree <= 0 || info.DiskFree > info.Disk || info.Processors < 0 {
		t.Errorf("described as %+v", info)
	}
	if text, err := json.Marshal(info); err != nil || len(text) > 300 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestUnknown: resources that cannot be measured are unknown.
func TestUnknown(t *testing.T) {
	var info cluster.NodeInfo
	Meter{Dir: filepath.Join(t.TempDir(), "missing")}.Describe(&info)
	info.Processors = 0
	if info.Memory != 0 || info.Disk != 0 || info.DiskFree != 0 {
		t.Errorf("described as %+v", info)
	}
	if !(cluster.NodeInfo{}).HasRoom(1 << 40) {
		t.Error("a node that reports no resources has no room")
	}
}

// TestProcessors reads files of the kernel, and files that are none.
func TestProcessors(t *testing.T) {
	for text, want := range map[string]float64{
		"3.00 1.00 0.50 2/345 678\n": 0.75, "0.00 0.01 0.05 1/80 12\n": 0,
		"1.234 0 0 1/1 1": 0.31, "": 0, "x": 0, "NaN 1 1": 0, "-1 1 1": 0,
	} {
		file := filepath.Join(t.TempDir(), "loadavg")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := processors(file, 4); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	if got := processors(filepath.Join(t.TempDir(), "missing"), 4); got != 0 {
		t.Errorf("a missing file is %v", got)
	}
}
