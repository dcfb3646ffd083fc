package e2b

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A run is one set of packages in one mode with the suites of its checks.
type run struct {
	name             string
	e2b, interpreter string // names in package.json
	mode             string // url or domain
	suites           string
}

// suites are those of the current SDK. addressed are those whose requests name a sandbox in another
// way in the domain mode.
const (
	suites = addressed + " lists lifecycle network watch git charts stores templates"

	addressed = "sandbox commands pty files interpreter ports"
)

func runs() []run {
	const none = "none"
	return []run{
		{"url", "e2b", "@e2b/code-interpreter", "url", suites},
		{"domain", "e2b", "@e2b/code-interpreter", "domain", addressed},
		{"e2b-1.13", "e2b-1.13", "code-interpreter-1.5", "domain", "older oldercode"},
		{"e2b-2.6", "e2b-2.6", none, "domain", "older"},
		{"e2b-2.25", "e2b-2.25", none, "url", "older"},
		{"e2b-2.45", "e2b-2.45", none, "url", "older"},
		{"code-interpreter-2.7", "e2b", "code-interpreter-2.7", "url", "oldercode"},
	}
}

// A planned is a check that a run announces.
type planned struct {
	Name    string
	Covers  []string
	Refuses string
	Mode    string
}

// A line is one line of the output of the checks.
type line struct {
	Plan    []planned
	Methods []string
	Name    string
	OK      bool
	Error   string
	Stray   string
	// Ask is a request to this test: kill-gateway, or quota and the quota.
	Ask string
	MS  int
}

// pending are the checks that do not pass yet, each with the reason. A name begins with that of the
// run if the check passes in others.
func pending(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("pending.json")
	check(t, err)
	var all map[string]string
	check(t, json.Unmarshal(text, &all))
	return all
}

// TestSDK runs the checks with each set of packages. Each check is a subtest. A check that is
// announced and has no result fails, and one that is pending and passes.
func TestSDK(t *testing.T) {
	s := server(t)
	for _, r := range runs() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s.checks(t, r, 4)
		})
	}
}

// checks runs the checks of a run and reports their results.
func (d *deployment) checks(t *testing.T, r run, parallel int) {
	t.Helper()
	waits := pending(t)
	var plan []planned
	results := map[string]line{}
	stderr := d.node(t, r, parallel, func(l line) {
		switch {
		case l.Plan != nil:
			plan = l.Plan
		case l.Stray != "":
			t.Logf("an error that no check waited for: %s", l.Stray)
		default:
			results[l.Name] = l
		}
	})
	if len(plan) == 0 {
		t.Fatalf("no checks: %s", stderr)
	}
	for _, p := range plan {
		t.Run(p.Name, func(t *testing.T) {
			why := waits[r.name+"/"+p.Name]
			if why == "" {
				why = waits[p.Name]
			}
			result, ran := results[p.Name]
			switch {
			case !ran:
				t.Errorf("it has no result: %s", stderr)
			case why != "" && result.OK:
				t.Errorf("it passes: remove it from pending.json, where it is because %s", why)
			case why != "":
				t.Skipf("pending: %s: %s", why, result.Error)
			case !result.OK:
				t.Errorf("after %d ms: %s", result.MS, result.Error)
			}
		})
	}
}

// node runs the program of the checks, and calls each for its lines. It returns what the program
// prints to stderr.
func (d *deployment) node(t *testing.T, r run, parallel int, each func(line)) string {
	t.Helper()
	ctx := deadline(t)
	args := []string{"checks/run.mjs"}
	env := []string{
		"CHECK_E2B=" + r.e2b, "CHECK_INTERPRETER=" + r.interpreter, "CHECK_MODE=" + r.mode,
		fmt.Sprintf("CHECK_PARALLEL=%d", parallel), "E2B_API_KEY=" + d.key, "NO_COLOR=1",
	}
	if r.mode == "url" {
		env = append(env, "E2B_API_URL="+d.URL, "E2B_SANDBOX_URL="+d.URL, "E2B_VOLUME_API_URL="+d.URL)
	} else {
		preload, err := filepath.Abs("checks/dns.cjs")
		check(t, err)
		args = append([]string{"--require", preload}, args...)
		env = append(env, "E2B_DOMAIN="+d.domain, "NODE_EXTRA_CA_CERTS="+d.certificate)
	}
	return program(t, ctx, append(args, strings.Fields(r.suites)...), env, func(l line) string {
		if l.Ask == "" {
			each(l)
			return ""
		}
		check(t, d.answer(ctx, l.Ask))
		return "done\n"
	})
}

// program runs Node, and writes the answers to its lines of JSON to its input.
func program(
	t *testing.T, ctx context.Context, args, env []string, each func(line) string,
) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("these checks need Node: %v", err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Errorf("not a result: %s", lines.Text())
			continue
		}
		_, err := io.WriteString(in, each(l))
		check(t, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the checks: %v\n%s", err, &stderr)
	}
	return stderr.String()
}

// answer does what the program of the checks asks for.
func (d *deployment) answer(ctx context.Context, ask string) error {
	if quota, ok := strings.CutPrefix(ask, "quota "); ok {
		code, err := d.JSON(ctx, "PUT", "/v1/tenants/"+limited, json.RawMessage(quota), nil)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("e2b: a quota: %d", code)
		}
		return err
	}
	if ask != "kill-gateway" {
		return fmt.Errorf("e2b: the checks ask for %q", ask)
	}
	pid, err := d.Child("gateway")
	if err != nil {
		return err
	}
	return d.replaceGateway(ctx, pid)
}
