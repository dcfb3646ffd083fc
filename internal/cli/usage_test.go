package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUsageCommand adds up records of several files, by each of its keys.
func TestUsageCommand(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "usage")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"usage-20261101T000000.000000000Z.jsonl": `{"time":"2026-11-01T10:00:00Z","tenant":"t","subject":"ann","session":"s_1","seconds":60,"cpu_seconds":1.5,"memory_mib_seconds":3686400,"bytes_in":10,"bytes_out":1000,"cells":2}
{"time":"2026-11-01T10:01:00Z","tenant":"t","sub
`,
		"usage.jsonl": `{"time":"2026-11-02T10:00:00Z","tenant":"t","subject":"ann","session":"s_1","seconds":60,"cpu_seconds":0.5,"cells":1,"ended":"deleted"}
{"time":"2026-11-02T10:00:00Z","tenant":"t","subject":"bob","session":"s_2","seconds":5,"cells":4}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := newCLI(t, nil)
	for args, want := range map[string]string{
		"":                                "t/ann  1  3  2m0s  2s  1.0 GiB·h  10 B  1000 B|t/bob  1  4  5s  0s  0.0 GiB·h  0 B  0 B",
		"--by=tenant":                     "t  2  7  2m5s  2s  1.0 GiB·h  10 B  1000 B",
		"--by=day":                        "2026-11-01  1  2  1m0s  1.5s  1.0 GiB·h  10 B  1000 B|2026-11-02  2  5  1m5s  500ms  0.0 GiB·h  0 B  0 B",
		"--by=session --since=2026-11-02": "s_1  1  1  1m0s  500ms  0.0 GiB·h  0 B  0 B|s_2  1  4  5s  0s  0.0 GiB·h  0 B  0 B",
		"--by=subject --json": `{"key":"t/ann","sessions":1,"cells":3,"seconds":120,"cpu_seconds":2,"memory_mib_seconds":3686400,"bytes_in":10,"bytes_out":1000}|` +
			`{"key":"t/bob","sessions":1,"cells":4,"seconds":5,"cpu_seconds":0,"memory_mib_seconds":0,"bytes_in":0,"bytes_out":0}`,
	} {
		out, errs, code := c.run(t, "", append([]string{"usage", "--data-dir", data},
			strings.Fields(args)...)...)
		rows := strings.Split(strings.TrimSpace(out), "\n")
		if !strings.Contains(args, "json") {
			rows = rows[1:]
		}
		for i, r := range rows {
			if !strings.HasPrefix(r, "{") {
				rows[i] = strings.Join(strings.FieldsFunc(strings.ReplaceAll(r, "  ", "\t"),
					func(c rune) bool { return c == '\t' }), "  ")
				rows[i] = strings.ReplaceAll(rows[i], "   ", "  ")
			}
		}
		if got := strings.Join(rows, "|"); code != 0 || got != want {
			t.Errorf("%s: %d\n got %s\nwant %s", args, code, got, want)
		}
		if !strings.Contains(errs, "1 lines are no records") {
			t.Errorf("%s: %s", args, errs)
		}
	}
	for _, bad := range []string{"--by=colour", "--since=soon"} {
		if _, errs, code := c.run(t, "", "usage", "--data-dir", data, bad); code != usageExit {
			t.Errorf("%s: %d, %s", bad, code, errs)
		}
	}
}
