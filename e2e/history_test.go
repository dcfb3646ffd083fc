package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// history has the actions of a cluster, as its nodes and its users recorded them at
// the time. Each case of TestChaos ends with a check of the history.
type history struct {
	nodes map[string]string // the folder of each node, where its log and its audit log are
	// ledger has the sessions and the lists of users who record them.
	ledger ledger
	// mayFail reports whether a list may be unavailable; nil if none may.
	mayFail func(listing) bool

	mu    sync.Mutex // guards all below
	views []view
	// outages are the failures of parts during which lists may be unavailable.
	outages []*span
}

// span is a time; ended is zero before its end.
type span struct{ began, ended time.Time }

// view is the output that one viewer was sent of a channel, in order.
type view struct {
	session, channel string
	places           []viewed
}

type viewed struct {
	epoch  uint64
	offset int64
}

func (h *history) saw(v view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.views = append(h.views, v)
}

// outage records that a part fails until the call of end.
func (h *history) outage() (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &span{began: time.Now()}
	h.outages = append(h.outages, s)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		s.ended = time.Now()
	}
}

// inOutage reports whether a list may be unavailable, because a part failed or had no lease
// meanwhile. The caller has locked h.mu.
func (h *history) inOutage(l listing) bool {
	if !fault.Is(l.err, fault.Unavailable) {
		return false
	}
	return slices.ContainsFunc(h.outages, func(s *span) bool {
		return s.began.Before(l.ended) &&
			(s.ended.IsZero() || l.began.Before(s.ended.Add(clusterLease)))
	}) || slices.ContainsFunc(h.renewals(), func(at time.Time) bool {
		return at.After(l.began.Add(-clusterLease)) && at.Before(l.ended.Add(renewal))
	})
}

// renewal is how long a node that has lost its lease on a busy machine may need to notice it.
const renewal = 10 * time.Second

var renewalLine = regexp.MustCompile(`(?m)^time=(\S+) .*msg="claiming all sessions again"`)

// renewals returns when nodes claimed their sessions again, after they had lost their leases. On a
// busy machine that happens without a failure.
func (h *history) renewals() (all []time.Time) {
	for _, dir := range h.nodes {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		for _, m := range renewalLine.FindAllStringSubmatch(string(log), -1) {
			at, _ := time.Parse(time.RFC3339, m[1])
			all = append(all, at)
		}
	}
	return all
}

// claim is a line of a node's log about a session's owner.
type claim struct {
	at      time.Time
	node    string
	what    string // owned, parked or forgotten
	session string
	token   uint64
}

var claimLine = regexp.MustCompile(
	`time=(\S+) .*msg="session (owned|parked|forgotten)" .*session=(\S+) token=(\d+)`)

// claims returns the claims of all nodes, in the order of each node.
func (h *history) claims() []claim {
	var all []claim
	for node, dir := range h.nodes {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		for _, m := range claimLine.FindAllStringSubmatch(string(log), -1) {
			at, _ := time.Parse(time.RFC3339, m[1])
			token, _ := strconv.ParseUint(m[4], 10, 64)
			all = append(all, claim{at, node, m[2], m[3], token})
		}
	}
	return all
}

// acknowledged returns the changes that a node has acknowledged, from its audit log.
func (h *history) acknowledged(node string) []protocol.AuditEntry {
	files, _ := filepath.Glob(filepath.Join(h.nodes[node], "data", "audit", "*.jsonl"))
	var all []protocol.AuditEntry
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			var e protocol.AuditEntry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				continue // the node was killed while it wrote the line
			}
			switch e.Event {
			case protocol.OpExecute, protocol.OpChannelOpen, protocol.OpInterrupt,
				protocol.OpFileWrite, protocol.OpSessionUpdate:
				if e.Outcome == "ok" && e.Session != "" {
					all = append(all, e)
				}
			}
		}
	}
	return all
}

// mustHold fails the test for each broken promise in the history, and shows what the nodes logged
// about the first sessions of which it is.
func (h *history) mustHold(t *testing.T) {
	t.Helper()
	wrong, read := h.check()
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("the history: %s", read)
	shown := map[string]bool{}
	for _, id := range sessionID.FindAllString(strings.Join(wrong, " "), -1) {
		if !shown[id] && len(shown) < 3 {
			t.Logf("the logs about %s:\n%s", id, h.logged(id))
		}
		shown[id] = true
	}
}

var sessionID = regexp.MustCompile(`s_[a-z0-9]{26}`)

// logged returns the lines of all nodes about a session, in the order of their times.
func (h *history) logged(id string) string {
	var all []string
	for node, dir := range h.nodes {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, id) {
				all = append(all, node+" "+strings.TrimSpace(strings.TrimPrefix(line, "time=")))
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(a[len("n0 "):], b[len("n0 "):]) })
	return strings.Join(all, "\n")
}

// check returns the broken promises in the history, and how much it has read:
//
//   - each token of a session was issued once, and they rise at each node. The tokens of two sessions
//     can be equal, if Redis had a clock that was ahead and then lost its data;
//   - when a node acknowledged a change of a session that it owned, no other node had
//     claimed the session with a larger token;
//   - no viewer was sent an offset, or an epoch, that decreases;
//   - those of the ledger.
func (h *history) check() (wrong []string, read string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	type holder struct{ node, session string }
	type grant struct {
		session string
		token   uint64
	}
	given := map[grant]string{} // the nodes
	last := map[holder]uint64{}
	owned := map[string][]claim{}
	for _, c := range h.claims() {
		if c.what != "owned" {
			continue
		}
		k := holder{c.node, c.session}
		g := grant{c.session, c.token}
		if other, there := given[g]; there && other != c.node {
			say("token %d of %s was given twice: to %s and %s", c.token, c.session, other, c.node)
		}
		given[g] = c.node
		if c.token < last[k] {
			say("the tokens of %s on %s go back from %d to %d", c.session, c.node, last[k], c.token)
		}
		last[k] = c.token
		owned[c.session] = append(owned[c.session], c)
	}
	if len(owned) == 0 {
		say("no node has written down that it owns a session")
	}
	for _, all := range owned {
		slices.SortFunc(all, func(a, b claim) int { return int(int64(a.token) - int64(b.token)) })
	}
	checked := 0
	for node := range h.nodes {
		for _, e := range h.acknowledged(node) {
			owner := claim{}
			for _, c := range owned[e.Session] {
				// A log's times are in milliseconds.
				if !c.at.After(e.Time.Add(-2 * time.Millisecond)) {
					owner = c
				}
			}
			if owner.node != "" && owner.node != node {
				say("%s acknowledged %s of %s at %s, which %s had with token %d since %s", node,
					e.Event, e.Session, e.Time, owner.node, owner.token, owner.at)
			}
			checked++
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	shown := 0
	for _, v := range h.views {
		var at viewed
		for _, p := range v.places {
			if p.epoch == at.epoch && p.offset < at.offset {
				say("a viewer of %s/%s was shown %v after %v", v.session, v.channel, p, at)
			}
			at = p
		}
		shown += len(v.places)
	}
	mayFail := never
	if h.mayFail != nil {
		mayFail = h.mayFail
	}
	more, lists := h.ledger.check(mayFail, func(id string, at time.Time) (nodes []string) {
		for _, c := range owned[id] {
			if c.at.Before(at) {
				nodes = []string{c.node}
			}
		}
		return nodes
	})
	return append(wrong, more...), fmt.Sprintf(
		"%d claims, %d acknowledgements, %d records that were shown, %s", len(given), checked, shown,
		lists)
}

// owners counts the nodes that have had each session.
func (h *history) owners() map[string]int {
	had := map[string]map[string]bool{}
	for _, c := range h.claims() {
		if had[c.session] == nil {
			had[c.session] = map[string]bool{}
		}
		had[c.session][c.node] = true
	}
	n := map[string]int{}
	for id, nodes := range had {
		n[id] = len(nodes)
	}
	return n
}

// TestHistoryCheck checks that a history with a broken promise does not pass.
func TestHistoryCheck(t *testing.T) {
	at := func(s int) string {
		return time.Date(2026, 1, 1, 0, 0, s, 0,
			time.UTC).Format(time.RFC3339Nano)
	}
	owned := func(s int, session string, token int) string {
		return fmt.Sprintf(
			"time=%s level=DEBUG msg=\"session owned\" part=node session=%s token=%d mode=take\n",
			at(s), session, token)
	}
	ran := func(s int, session string) string {
		return fmt.Sprintf(
			"{\"time\":%q,\"event\":\"execute\",\"session\":%q,\"outcome\":\"ok\"}\n", at(s),
			session)
	}
	for name, x := range map[string]struct {
		logs, audits [2]string
		places       []viewed
		want         string
	}{
		"good": {
			logs:   [2]string{owned(1, "s", 10) + owned(2, "z", 11), owned(5, "s", 20)},
			audits: [2]string{ran(2, "s") + ran(9, "z"), ran(6, "s")},
			places: []viewed{{1, 5}, {1, 9}, {2, 0}},
		},
		"two owners": {
			logs:   [2]string{owned(1, "s", 10), owned(5, "s", 20)},
			audits: [2]string{ran(6, "s"), ""}, want: "which n1 had with token 20",
		},
		"a token twice": {
			logs: [2]string{owned(1, "s", 10), owned(5, "s", 10)},
			want: "given twice",
		},
		"a token goes back": {
			logs: [2]string{owned(1, "s", 10) + owned(5, "s", 9), ""},
			want: "go back",
		},
		"an offset goes back": {
			logs:   [2]string{owned(1, "s", 10), ""},
			places: []viewed{{1, 5}, {1, 4}}, want: "was shown",
		},
		"nothing": {want: "no node has written"},
	} {
		h := &history{
			nodes: map[string]string{},
			views: []view{{session: "s", channel: "k1", places: x.places}},
		}
		for i := range x.logs {
			dir := t.TempDir()
			h.nodes[fmt.Sprint("n", i)] = dir
			check(t, os.MkdirAll(filepath.Join(dir, "data", "audit"), 0o700))
			check(t, os.WriteFile(filepath.Join(dir, "log"), []byte(x.logs[i]), 0o600))
			check(t, os.WriteFile(filepath.Join(dir, "data", "audit", "audit.jsonl"),
				[]byte(x.audits[i]), 0o600))
		}
		wrong, _ := h.check()
		if x.want == "" && len(wrong) > 0 || x.want != "" &&
			(len(wrong) != 1 || !strings.Contains(wrong[0], x.want)) {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
