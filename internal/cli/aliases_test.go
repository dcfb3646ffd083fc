package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/cli/alias"
	"github.com/sandgate/sandgate/internal/console"
)

// TestAliases: the spellings of earlier versions mean the same as the current ones.
func TestAliases(t *testing.T) {
	for old, now := range map[string]string{
		// Commands.
		"sessions":                    "session list",
		"sessions -q":                 "session list -q",
		"sessions ls -q":              "session list -q",
		"sessions create --name x":    "session create --name x",
		"sessions inspect s_1":        "session get --output=json s_1",
		"sessions update --name y s1": "session update --name y s1",
		"sessions rm -f s_1 s_2:x":    "rm -f s_1 s_2:x",
		"pause s_1":                   "session pause s_1",
		"hibernate s_1 s_2":           "session hibernate s_1 s_2",
		"resume s_1":                  "session resume s_1",
		"template build --detach f":   "template create --detach f",
		"template ls":                 "template list",
		"template inspect data":       "template get --output=json data",
		"template rm a b":             "template delete a b",
		"snapshot ls -q":              "snapshot list -q",
		"snapshot rm clean":           "snapshot delete clean",
		"snapshot start clean":        "snapshot start clean",
		"volume ls":                   "volume list",
		"volume inspect data":         "volume get --output=json data",
		"volume rm data":              "volume delete data",
		"key ls --all":                "key list --all",
		"tenant ls":                   "tenant list",
		"node --run-dir /run/x":       "node start --run-dir /run/x",
		"node":                        "node start",
		"node check --warm":           "node check --warm",
		"gateway --config f":          "gateway start --config f",
		"--version":                   "version",
		"-version":                    "version",
		"help sessions ls":            "help session list",
		"-h":                          "help",
		// Flags before the verb.
		"snapshot --name clean create s_1":         "snapshot create --name clean s_1",
		"key --all ls":                             "key list --all",
		"volume --ttl 5m --holder ls lease data":   "volume lease --ttl 5m --holder ls data",
		"cluster --out /x join /root/cluster node": "cluster join --out /x /root/cluster node",
		"tenant --clear quota acme":                "tenant quota --clear acme",
		"key -q ls":                                "key list -q",
		// Long flags with one dash, short ones with two.
		"run -network -allow=packages.example.org f.py": "run --network --allow=packages.example.org f.py",
		"run -session s_1 -c code":                      "run --session s_1 -c code",
		"run -c -network":                               "run -c -network",
		"run f.py -network --x":                         "run f.py -network --x",
		"run --c=1 --l js":                              "run -c=1 -l js",
		"exec -cwd /tmp s_1 -- ls -la":                  "exec --cwd /tmp s_1 -- ls -la",
		"fork --n 3 s_1":                                "fork -n 3 s_1",
		"logs -tail -5 s_1 k1":                          "logs --tail -5 s_1 k1",
		"ls -la s_1:":                                   "ls -la s_1:",
		"ls -l -help":                                   "ls -l --help",
		"serve -listen :1 -audit-enabled":               "serve --listen :1 --audit-enabled",
		"rm -- -x":                                      "rm -- -x",
		"kill -s HUP s_1 42":                            "kill -s HUP s_1 42",
		"shell -env A=1 vim -network":                   "shell --env A=1 vim -network",
		// Words that are not a command stay unchanged.
		"bogus -x":         "bogus -x",
		"session bogus -q": "session bogus -q",
		"__complete run":   "__complete run",
		"":                 "",
	} {
		root := newRoot(newApp(&console.Invocation{}))
		if got := alias.Canonical(root, strings.Fields(old)); !slices.Equal(got,
			strings.Fields(now)) {
			t.Errorf("%s becomes %q, want %q", old, got, now)
		}
	}
	for words, now := range alias.Names() {
		c := newRoot(newApp(&console.Invocation{}))
		for _, w := range now {
			if !strings.HasPrefix(w, "-") {
				c = alias.Child(c, w)
			}
			if c == nil {
				t.Fatalf("%s stands for a command that does not exist", words)
			}
		}
	}
}
