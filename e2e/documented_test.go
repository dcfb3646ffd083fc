package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestApartAsDocumented runs the commands of docs/operation.md for separate nodes
// and gateways, as the page shows them except for addresses and folders.
func TestApartAsDocumented(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c := newCluster(t, 0)
	page, err := os.ReadFile("../docs/operation.md")
	check(t, err)
	_, section, found := strings.Cut(string(page), "### Nodes and gateways apart\n")
	section, _, whole := strings.Cut(section, "\n### ")
	if !found || !whole {
		t.Fatal("the page has no such section")
	}
	bin, err := Bin("sandgate")
	check(t, err)
	there := map[string]string{
		"/root/cluster": c.Dir + "/ca", "/root/for-": c.Dir + "/for-",
		"/mnt/shared/sandgate": c.Dir + "/blobs",
		"10.0.0.5:6379":        c.Address, "10.0.0.11:9443": freeAddress(t),
		"10.0.0.21:8080":                    freeAddress(t),
		"-o sandgate -g sandgate":           "-o nobody -g nogroup",
		"--reuid sandgate --regid sandgate": "--reuid nobody --regid nogroup",
	}
	here := func(text, machine string) string {
		for from, to := range there {
			text = strings.ReplaceAll(text, from, to)
		}
		return strings.ReplaceAll(text, "/etc/sandgate", filepath.Join(c.Dir, machine))
	}
	machine := ""
	var running []*exec.Cmd
	t.Cleanup(func() {
		for _, cmd := range running {
			_ = cmd.Process.Kill()
		}
	})
	for _, block := range regexp.MustCompile(
		"(?ms)^```(sh|yaml)\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		kind, text := block[1], block[2]
		if kind == "yaml" {
			line, _, _ := strings.Cut(text, "\n")
			machine = line[strings.LastIndexByte(line, ' ')+1:]
			check(t, os.MkdirAll(filepath.Join(c.Dir, machine), 0o755))
			extra := fmt.Sprintf(
				"data_dir: %[1]s/data\nrun_dir: %[1]s/run\npool: {size: 1, spare: 0}\n",
				filepath.Join(c.Dir, machine))
			check(t, os.WriteFile(filepath.Join(c.Dir, machine, "config.yaml"),
				[]byte(here(text, machine)+extra), 0o644))
			continue
		}
		cmd := exec.CommandContext(ctx, "bash", "-euc", here(text, machine))
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"), "HOME="+
			c.Dir, "SANDGATE_CONFIG="+filepath.Join(c.Dir, machine, "config.yaml"))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if strings.Contains(text, "\nexec ") {
			check(t, cmd.Start())
			running = append(running, cmd)
			continue
		}
		if strings.Contains(text, "sandgate check") {
			// Processes that a supervisor starts need a moment.
			eventually(t, "the gateway", func() bool {
				code, err := (&Server{URL: "http://" + there["10.0.0.21:8080"]}).Get(ctx,
					"/healthz", nil)
				return err == nil && code == 200
			})
		}
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s\n%s", err, text, out.Bytes())
		}
		if strings.Contains(text, "sandgate check") {
			contains(t, out.String(), "ok: print(6 * 7)")
			machine = ""
		}
	}
	if len(running) != 2 || machine != "" {
		t.Fatalf("the section starts %d processes, and ends with %q", len(running), machine)
	}
	running[1] = rotated(ctx, t, filepath.Join(c.Dir, "edge-1"), "http://"+there["10.0.0.21:8080"],
		running[1])
	for i := range running {
		cmd := running[len(running)-1-i]
		check(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", cmd.Args, err)
		}
	}
}

// rotated rotates the token of a gateway that runs alone. The gateway accepts the new token, and
// the old one while it is valid, also when it is started again: next is its new process.
func rotated(
	ctx context.Context, t *testing.T, dir, url string, gateway *exec.Cmd,
) (next *exec.Cmd) {
	t.Helper()
	file := filepath.Join(dir, "cluster", "token")
	read := func() string {
		b, err := os.ReadFile(file)
		check(t, err)
		return strings.TrimSpace(string(b))
	}
	old := read()
	_, err := Sandgate("token", "--rotate", "--keep", "1h", "--config",
		filepath.Join(dir, "config.yaml"))
	check(t, err)
	status := func(token string) int {
		code, err := (&Server{URL: url, Token: token}).Get(ctx, "/v1/sessions", nil)
		check(t, err)
		return code
	}
	eventually(t, "the new token", func() bool { return status(read()) == 200 })
	both := func(when string) {
		t.Helper()
		if a, b := status(read()), status(old); read() == old || a != 200 || b != 200 {
			t.Errorf("%s: the token gets %d, the one before %d", when, a, b)
		}
	}
	both("after the rotation")
	check(t, gateway.Process.Signal(syscall.SIGTERM))
	check(t, gateway.Wait())
	script := gateway.Args[len(gateway.Args)-1]
	_, start, _ := strings.Cut(script, "\nexec ") // the lines before would install the first token
	next = exec.CommandContext(ctx, "bash", "-euc", "exec "+start)
	next.Env = gateway.Env
	check(t, next.Start())
	t.Cleanup(func() { _ = next.Process.Kill() })
	eventually(t, "the gateway", func() bool {
		code, err := (&Server{URL: url}).Get(ctx, "/healthz", nil)
		return err == nil && code == 200
	})
	both("after another start")
	return next
}
