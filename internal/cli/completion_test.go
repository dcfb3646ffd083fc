package cli

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// completions returns the candidates for the last of words, without their descriptions.
func (c *cli) completions(t *testing.T, words ...string) []string {
	t.Helper()
	out, _, code := c.run(t, "", append([]string{"__complete"}, words...)...)
	if code != 0 {
		t.Fatalf("%q: %d, %s", words, code, out)
	}
	var all []string
	for line := range strings.Lines(out) {
		value, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !strings.HasPrefix(value, ":") {
			all = append(all, value)
		}
	}
	return all
}

// TestCompletion completes from the server: ids and names of sessions, and other things by name.
func TestCompletion(t *testing.T) {
	c := newAPI(t, apiResults())
	for words, want := range map[string]string{
		"session get ,":                      "s_1 demo",
		"session get de,":                    "demo",
		"session get x,":                     "",
		"session get s_1 ,":                  "",
		"session delete s_1 ,":               "s_1 demo",
		"exec d,":                            "demo",
		"fork s,":                            "s_1",
		"logs demo ,":                        "k1",
		"attach s_1 k,":                      "k1",
		"cp ,":                               "s_1: demo:",
		"ls d,":                              "demo:",
		"rm s,":                              "s_1 s_1:",
		"run --session ,":                    "s_1 demo",
		"run -l p,":                          "python php",
		"repl ph,":                           "php",
		"session create --template ,":        "data",
		"session create --snapshot c,":       "clean",
		"session create --volume ,":          "vol",
		"template delete ,":                  "data",
		"snapshot get ,":                     "n_1 clean",
		"volume lease v,":                    "vol",
		"key revoke ,":                       "k_1",
		"tenant quota ,":                     "local",
		"key create --tenant l,":             "local",
		"session list -o ,":                  "table wide json",
		"session l,":                         "list",
		"completion ,":                       "bash zsh fish",
		"session get --url http://x/#y s_1 ": "",
	} {
		given := strings.Fields(strings.TrimSuffix(words, ","))
		if strings.HasSuffix(words, " ,") {
			given = append(given, "")
		}
		if got := strings.Join(c.completions(t, given...), " "); got != want {
			t.Errorf("%s completes to %q, want %q", words, got, want)
		}
	}
}

// TestCompletionIsSilent: without a server, or with one that does not answer, there is no
// candidate, no message and no long wait.
func TestCompletionIsSilent(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	c := newCLI(t, nil)
	for _, url := range []string{
		"http://127.0.0.1:1", "http://" + silent.Addr().String(),
		"no address",
	} {
		began := time.Now()
		out, errs, code := c.run(t, "", "__complete", "session", "get", "--url", url, "")
		errs = strings.TrimSpace(strings.TrimPrefix(errs,
			"Completion ended with directive: ShellCompDirectiveNoFileComp"))
		if code != 0 || out != ":4\n" || errs != "" {
			t.Errorf("%s: %d, %q, %q", url, code, out, errs)
		}
		if took := time.Since(began); took > 5*completionLimit {
			t.Errorf("%s: it took %s", url, took)
		}
	}
}

// TestCompletionScripts: each shell has a script, and bash and sh can parse the script for bash.
func TestCompletionScripts(t *testing.T) {
	c := newCLI(t, nil)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, errs, code := c.run(t, "", "completion", shell)
		if code != 0 || errs != "" || !strings.Contains(out, "__complete") ||
			!strings.Contains(out, "sandgate") {
			t.Errorf("%s: %d, %.100q, %s", shell, code, out, errs)
		}
		if path, err := exec.LookPath(shell); err == nil {
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(out)
			if text, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s cannot read its script: %v, %s", shell, err, text)
			}
		}
	}
}
