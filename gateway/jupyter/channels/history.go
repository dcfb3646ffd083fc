package channels

import (
	"regexp"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// historyRequest is the content of a history_request.
type historyRequest struct {
	Output  bool   `json:"output"`
	Type    string `json:"hist_access_type"`
	Session int    `json:"session"`
	Start   int    `json:"start"`
	Stop    *int   `json:"stop"`
	N       int    `json:"n"`
	Pattern string `json:"pattern"`
	Unique  bool   `json:"unique"`
}

// choose returns the entries that a request selects. The kernel keeps no outputs, and has one
// session, with the number 0.
func (p historyRequest) choose(all []protocol.HistoryEntry) []any {
	var chosen []protocol.HistoryEntry
	pattern := glob(p.Pattern)
	seen := map[string]bool{}
	for _, e := range slices.Backward(all) {
		switch p.Type {
		case "range":
			if p.Session != 0 || e.Count < p.Start || p.Stop != nil && e.Count >= *p.Stop {
				continue
			}
		case "search":
			if !pattern.MatchString(e.Code) || p.Unique && seen[e.Code] {
				continue
			}
		}
		if p.Type != "range" && p.N > 0 && len(chosen) >= p.N {
			break
		}
		seen[e.Code] = true
		chosen = append(chosen, e)
	}
	slices.Reverse(chosen)
	out := []any{}
	for _, e := range chosen {
		if p.Output {
			out = append(out, []any{0, e.Count, []any{e.Code, nil}})
		} else {
			out = append(out, []any{0, e.Count, e.Code})
		}
	}
	return out
}

// glob returns the expression for a pattern with * and ?. Without a pattern it matches everything.
func glob(pattern string) *regexp.Regexp {
	if pattern == "" {
		pattern = "*"
	}
	text := regexp.QuoteMeta(pattern)
	text = strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(text)
	return regexp.MustCompile("(?s)^" + text + "$")
}
