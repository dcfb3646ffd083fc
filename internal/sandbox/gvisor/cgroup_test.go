package gvisor

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestReadCounters(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("memory/memory.usage_in_bytes", "1000\n")
	write("memory/memory.max_usage_in_bytes", "6400000\n")
	write("memory/memory.limit_in_bytes", "6400000\n")
	write("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
	write("cpuacct/cpuacct.usage", "1500000000\n")
	write("pids/pids.current", "12\n")
	write("pids/pids.events", "max 3\n")
	want := counters{
		memory: 1000, peak: 6400000, reached: 1, killed: 2,
		cpu: 1500 * time.Millisecond, pids: 12, pidsReached: 3,
	}
	if got := readV1(func(c string) string { return filepath.Join(dir, c) }); got != want {
		t.Errorf("v1 gives %+v, want %+v", got, want)
	}
	write("memory/memory.max_usage_in_bytes", "3200000\n")
	if got := readV1(func(c string) string { return filepath.Join(dir, c) }); got.reached != 0 {
		t.Errorf("v1, below its limit, gives %+v", got)
	}

	write("v2/memory.current", "1000\n")
	write("v2/memory.peak", "2000\n")
	write("v2/memory.events", "low 0\nhigh 0\nmax 17\noom 4\noom_kill 2\noom_group_kill 1\n")
	write("v2/cpu.stat", "usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n")
	write("v2/pids.current", "12\n")
	write("v2/pids.events", "max 3\n")
	want = counters{
		memory: 1000, peak: 2000, reached: 4, killed: 2, cpu: 1500 * time.Millisecond,
		pids: 12, pidsReached: 3,
	}
	if got := readV2(filepath.Join(dir, "v2")); got != want {
		t.Errorf("v2 gives %+v, want %+v", got, want)
	}
	if got := readV2(filepath.Join(dir, "gone")); got != (counters{}) {
		t.Errorf("a cgroup that is gone gives %+v", got)
	}
}

func TestUnescapeMount(t *testing.T) {
	if got := unescapeMount(`/a\040b\134c\011d`); got != "/a b\\c\td" {
		t.Errorf("%q", got)
	}
}
