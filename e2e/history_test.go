package e2e

import (
	"encoding/json"
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
)

// history is what a cluster has done, as its nodes and its users wrote it down
// while they did it. Each case of chaos ends with reading it.
type history struct {
	nodes map[string]string // the folder of each node, where its log and its audit log are

	mu    sync.Mutex // guards all below
	views []view
}

// view is what one viewer was shown of a channel, in its order.
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

// claim is a line of a node's log about a session's owner.
type claim struct {
	at      time.Time
	node    string
	what    string // owned, parked or forgotten
	session string
	token   uint64
}

var claimLine = regexp.MustCompile(`time=(\S+) .*msg="session (owned|parked|forgotten)" .*session=(\S+) token=(\d+)`)

// claims are those of all nodes, each node's in its order.
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

// acknowledged are the changes that a node has said yes to, from its audit log.
func (h *history) acknowledged(t *testing.T, node string) []protocol.AuditEntry {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(h.nodes[node], "data", "audit", "*.jsonl"))
	var all []protocol.AuditEntry
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		for line := range strings.Lines(string(text)) {
			var e protocol.AuditEntry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				continue // a node that was killed in mid-line
			}
			switch e.Event {
			case protocol.OpExecute, protocol.OpChannelOpen, protocol.OpInterrupt, protocol.OpFileWrite, protocol.OpSessionUpdate:
				if e.Outcome == "ok" && e.Session != "" {
					all = append(all, e)
				}
			}
		}
	}
	return all
}

// check reads the history:
//
//   - each token was given once, and those of a session rise at each node;
//   - what a node acknowledged for a session it owned: no other had claimed it
//     by then with a larger token;
//   - no viewer was shown an offset, or an epoch, that goes back.
func (h *history) check(t *testing.T) {
	t.Helper()
	type holder struct{ node, session string }
	given := map[uint64]holder{}
	last := map[holder]uint64{}
	owned := map[string][]claim{}
	for _, c := range h.claims() {
		if c.what != "owned" {
			continue
		}
		k := holder{c.node, c.session}
		if other, there := given[c.token]; there && other != k {
			t.Errorf("token %d was given twice: %v and %v", c.token, other, k)
		}
		given[c.token] = k
		if c.token < last[k] {
			t.Errorf("the tokens of %s on %s go back from %d to %d", c.session, c.node, last[k], c.token)
		}
		last[k] = c.token
		owned[c.session] = append(owned[c.session], c)
	}
	if len(owned) == 0 {
		t.Error("no node has written down that it owns a session")
	}
	for _, all := range owned {
		slices.SortFunc(all, func(a, b claim) int { return int(int64(a.token) - int64(b.token)) })
	}
	checked := 0
	for node := range h.nodes {
		for _, e := range h.acknowledged(t, node) {
			owner := claim{}
			for _, c := range owned[e.Session] {
				// A log's times are in milliseconds.
				if !c.at.After(e.Time.Add(-2 * time.Millisecond)) {
					owner = c
				}
			}
			if owner.node != "" && owner.node != node {
				t.Errorf("%s acknowledged %s of %s at %s, which %s had with token %d since %s", node, e.Event, e.Session, e.Time, owner.node, owner.token, owner.at)
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
				t.Errorf("a viewer of %s/%s was shown %v after %v", v.session, v.channel, p, at)
			}
			at = p
		}
		shown += len(v.places)
	}
	t.Logf("the history: %d claims, %d acknowledgements, %d records that were shown", len(given), checked, shown)
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
