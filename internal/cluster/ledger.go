package cluster

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// MaxHeld is how many holders are reckoned with in one step.
const MaxHeld = 256

// wantLife is how long others are told that somebody wants something back.
const wantLife = 5 * time.Second

//go:embed lua/reckon.lua
var luaReckon string

// Amounts are added up one by one, whatever they are of.
type Amounts []float64

// Held is what a node has of a holder's.
type Held struct {
	// Holder is any text; it is kept as a hash.
	Holder string
	// Has is all that the node has now, what it is about to take among it; nil is
	// nothing.
	Has Amounts
	// Wants asks the other nodes to give something back.
	Wants bool
	// Parked is a session that the node has given up, and what it holds until
	// somebody has it.
	Parked *Parked
}

// Parked is a session that nobody has.
type Parked struct {
	Session SessionID
	Until   time.Time
	Holds   Amounts
}

// Sum is what all others have of a holder's.
type Sum struct {
	Has    Amounts
	Wanted bool // by another node
}

func (a *Amounts) add(b Amounts) {
	for len(*a) < len(b) {
		*a = append(*a, 0)
	}
	for i, x := range b {
		(*a)[i] += x
	}
}

func (a Amounts) text() string {
	parts := make([]string, len(a))
	for i, x := range a {
		parts[i] = strconv.FormatFloat(x, 'f', 3, 64)
	}
	return strings.Join(parts, " ")
}

// Reckon lays down what the node holds, in the place of what it held before, and
// returns what others do, in one step: of two who take what is left of something
// the second sees the first.
func (r *Redis) Reckon(ctx context.Context, node NodeID, incarnation Token, lease time.Duration, all []Held) ([]Sum, error) {
	const op = "cluster.reckon"
	if len(all) > MaxHeld {
		return nil, fault.New(fault.TooLarge, op, "%d holders at once, at most %d can be", len(all), MaxHeld)
	}
	keys := make([]string, len(all))
	args := []any{string(node), number(incarnation), lease.Milliseconds(), r.node(""), r.session("")}
	for i, h := range all {
		sum := sha256.Sum256([]byte(h.Holder))
		keys[i] = r.prefix + "held:" + hex.EncodeToString(sum[:16])
		parked := ""
		if p := h.Parked; p != nil {
			if err := CheckSession(p.Session); err != nil {
				return nil, err
			}
			parked = fmt.Sprintf("%s %d %s", p.Session, p.Until.UnixMicro(), p.Holds.text())
		}
		args = append(args, flag(h.Wants), h.Has.text(), parked)
	}
	out, err := r.run(ctx, op, r.reckon, keys, args...)
	if err != nil {
		return nil, err
	}
	if out[0] == "expired" {
		return nil, expired(op)
	}
	sums := make([]Sum, len(all))
	for i := range sums {
		sums[i].Wanted = out[1+2*i] == "1"
		for _, text := range strings.Fields(out[2+2*i]) {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fault.Wrap(fault.Internal, op, err)
			}
			sums[i].Has = append(sums[i].Has, x)
		}
	}
	return sums, nil
}

// Reckon is Redis', in memory: what a directory of one process is told is over
// with the process.
func (e *Embedded) Reckon(_ context.Context, node NodeID, incarnation Token, _ time.Duration, all []Held) ([]Sum, error) {
	const op = "cluster.reckon"
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.live(node, incarnation) {
		return nil, expired(op)
	}
	sums := make([]Sum, len(all))
	for i, h := range all {
		a := e.held[h.Holder]
		if a == nil {
			a = &account{nodes: map[NodeID]part{}, parked: map[SessionID]Parked{}}
			e.held[h.Holder] = a
		}
		if a.nodes[node] = (part{incarnation, h.Has}); h.Has == nil {
			delete(a.nodes, node)
		}
		if h.Parked != nil {
			a.parked[h.Parked.Session] = *h.Parked
		}
		if h.Wants {
			a.by, a.until = node, time.Now().Add(wantLife)
		}
		for id, p := range a.nodes {
			switch {
			case !e.live(id, p.incarnation):
				delete(a.nodes, id)
			case id != node:
				sums[i].Has.add(p.has)
			}
		}
		for id, p := range a.parked {
			if e.nobody(id) && time.Now().Before(p.Until) {
				sums[i].Has.add(p.Holds)
			} else {
				delete(a.parked, id)
			}
		}
		sums[i].Wanted = a.by != node && time.Now().Before(a.until)
		if len(a.nodes)+len(a.parked) == 0 {
			delete(e.held, h.Holder)
		}
	}
	return sums, nil
}

// account is what is held of a holder's.
type account struct {
	nodes  map[NodeID]part
	parked map[SessionID]Parked
	by     NodeID // who wanted something back
	until  time.Time
}

type part struct {
	incarnation Token
	has         Amounts
}

// Reckon lays down what the node holds and returns what others do.
func (k *Keeper) Reckon(ctx context.Context, all []Held) ([]Sum, error) {
	k.mu.Lock()
	incarnation := k.incarnation
	k.mu.Unlock()
	sums, err := k.dir.Reckon(ctx, k.o.Node, incarnation, k.o.Lease, all)
	if fault.Is(err, fault.Restarting) {
		err = &fault.Error{Kind: fault.Unavailable, Op: "cluster.reckon", Message: "the node is registering itself anew", RetryAfter: 1, Err: err}
	}
	return sums, err
}
