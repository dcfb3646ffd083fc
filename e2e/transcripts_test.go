package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestTranscripts makes the first request of the page of each application, and compares the answer
// with that of the page. The page has … for a text or a number that differs from run to run.
func TestTranscripts(t *testing.T) {
	block := regexp.MustCompile("(?ms)^ *```sh\n([^`]*curl -s [^`]*)^ *```\n[^`]*^ *```json\n([^`]*)^ *```\n")
	for _, page := range []string{
		"open-webui", "librechat", "lobehub", "dify", "ragflow", "fastgpt", "azure-sessions",
	} {
		text, err := os.ReadFile("../docs/" + page + ".md")
		check(t, err)
		found := block.FindSubmatch(text)
		if found == nil {
			t.Errorf("%s.md has no request with its answer", page)
			continue
		}
		command := strings.NewReplacer("http://127.0.0.1:8080", server.URL, "@127.0.0.1:8080",
			"@"+strings.TrimPrefix(server.URL, "http://")).Replace(string(found[1]))
		command = regexp.MustCompile(`(?m)^ *export KEY=.*$`).ReplaceAllString(command, "")
		cmd := exec.CommandContext(deadline(t), "bash", "-ec", command)
		cmd.Env = append(os.Environ(), "KEY="+server.Token)
		out, err := cmd.CombinedOutput()
		var got, want any
		if err != nil || json.Unmarshal(out, &got) != nil ||
			json.Unmarshal(found[2], &want) != nil {
			t.Errorf("%s.md: %v\n%s\nthe page has\n%s", page, err, out, found[2])
			continue
		}
		if !matches(want, got) {
			t.Errorf("%s.md: the answer is\n%s\nthe page has\n%s", page, out, found[2])
		}
	}
}

// matches compares a value with that of a page, in which "…" stands for each text or number.
func matches(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		for name, value := range w {
			ok = ok && matches(value, g[name])
		}
		return ok && len(g) == len(w)
	case []any:
		g, ok := got.([]any)
		ok = ok && len(g) == len(w)
		for i := range w {
			ok = ok && matches(w[i], g[i])
		}
		return ok
	case string:
		if w == "…" {
			_, text := got.(string)
			_, number := got.(float64)
			return text || number
		}
	}
	return want == got
}
