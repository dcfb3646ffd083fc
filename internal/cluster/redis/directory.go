package redis

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Directory is the session directory of the cluster.
type Directory struct{ c *Client }

// Directory returns the session directory of the cluster.
func (c *Client) Directory() Directory { return Directory{c} }

// Heartbeat renews a node's lease or starts one.
func (d Directory) Heartbeat(
	ctx context.Context, h cluster.Heartbeat,
) (cluster.HeartbeatReply, error) {
	const op = "redis.heartbeat"
	if err := h.Check(); err != nil {
		return cluster.HeartbeatReply{}, err
	}
	info, err := json.Marshal(h.Info)
	if err != nil || len(info) > cluster.MaxInfo {
		return cluster.HeartbeatReply{}, fault.New(
			fault.TooLarge, op, "a node's description has at most %d bytes", cluster.MaxInfo,
		)
	}
	out, err := d.c.run(ctx, op, d.c.scripts.heartbeat, []string{
		d.c.directoryKey(), d.c.node(h.Node), d.c.nodesKey(),
	},
		string(h.Node), h.Instance, number(h.Incarnation), number(h.Floor), h.Lease.Milliseconds(),
		info, d.c.eventsChannel(), h.Process, h.Replaces, h.Beat, strings.Join(h.Beats, " "))
	if err != nil {
		return cluster.HeartbeatReply{}, err
	}
	switch out[0] {
	case "other":
		return cluster.HeartbeatReply{}, cluster.AnotherProcess(op, h.Node)
	case "expired":
		return cluster.HeartbeatReply{}, cluster.LeaseExpired(op)
	}
	var a cluster.HeartbeatReply
	if a.Incarnation, err = parseToken(op, out[1]); err != nil {
		return a, err
	}
	if a.Epoch, err = parseToken(op, out[2]); err != nil {
		return a, err
	}
	a.Now, err = parseToken(op, out[3])
	return a, err
}

// Claim makes a node the owner of a session.
func (d Directory) Claim(ctx context.Context, c cluster.Claim) (cluster.Token, error) {
	const op = "redis.claim"
	if err := c.Check(); err != nil {
		return 0, err
	}
	life := max(time.Until(c.Until), time.Millisecond)
	out, err := d.c.run(ctx, op, d.c.scripts.claim, []string{
		d.c.directoryKey(), d.c.session(c.Session), d.c.node(c.Node), d.c.nodesKey(),
	},
		string(c.Session), string(c.Node), number(c.Incarnation), string(c.Mode), number(c.Last),
		c.Lease.Milliseconds(), life.Milliseconds(), d.c.node(""), d.c.eventsChannel(),
		c.Grace.Milliseconds(), number(c.Now), string(c.From))
	if err != nil {
		return 0, err
	}
	switch out[0] {
	case "expired":
		return 0, cluster.LeaseExpired(op)
	case "ended":
		return 0, cluster.NoSession(op)
	case "taken":
		return 0, cluster.OwnedByAnother(op, cluster.NodeID(out[1]))
	case "missed":
		left, _ := strconv.Atoi(out[2])
		return 0, cluster.OwnerMissing(op, cluster.NodeID(out[1]),
			time.Duration(left)*time.Millisecond)
	case "young":
		wait, _ := strconv.Atoi(out[1])
		return 0, &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: wait,
			Message: "the directory was restarted, or its clock was set, " +
				"and the owner of the session may not have reported to it yet",
		}
	}
	return parseToken(op, out[1])
}

// Release ends the ownership of a session whose state every node can now read.
func (d Directory) Release(
	ctx context.Context, id cluster.SessionID, token cluster.Token, as cluster.ReleaseInfo,
) error {
	return d.endSession(ctx, "redis.release", id, token, "park", as, "", 0)
}

// Forget removes a session that has ended.
func (d Directory) Forget(ctx context.Context, id cluster.SessionID, token cluster.Token) error {
	return d.endSession(ctx, "redis.forget", id, token, "forget", cluster.ReleaseInfo{}, "", 0)
}

// End records why a session has ended, and removes its record after keep.
func (d Directory) End(
	ctx context.Context, id cluster.SessionID, token cluster.Token, reason string,
	keep time.Duration,
) error {
	return d.endSession(ctx, "redis.end", id, token, "end", cluster.ReleaseInfo{}, reason, keep)
}

// EndLease ends the lease of a node that has nothing that others could miss.
func (d Directory) EndLease(
	ctx context.Context, node cluster.NodeID, incarnation cluster.Token,
) error {
	_, err := d.c.run(ctx, "redis.end_lease", d.c.scripts.leave, []string{
		d.c.directoryKey(), d.c.node(node), d.c.nodesKey(),
	}, string(node), number(incarnation), d.c.eventsChannel())
	return err
}

// Verify returns those of a node's sessions whose records are missing or do not agree.
func (d Directory) Verify(
	ctx context.Context, node cluster.NodeID, incarnation cluster.Token, all []cluster.Owned,
) ([]cluster.SessionID, error) {
	const op = "redis.verify"
	args := []any{d.c.session(""), string(node), number(incarnation)}
	for _, s := range all {
		args = append(args, string(s.Session), number(s.Token))
	}
	out, err := d.c.run(ctx, op, d.c.scripts.verify, []string{
		d.c.directoryKey(), d.c.node(node),
	}, args...)
	if err != nil {
		return nil, err
	}
	if out[0] == "expired" {
		return nil, cluster.LeaseExpired(op)
	}
	var wrong []cluster.SessionID
	for _, id := range out[1:] {
		wrong = append(wrong, cluster.SessionID(id))
	}
	return wrong, nil
}

func (d Directory) endSession(
	ctx context.Context, op string, id cluster.SessionID, token cluster.Token, how string,
	as cluster.ReleaseInfo, reason string, keep time.Duration,
) error {
	if err := cluster.CheckSession(id); err != nil {
		return err
	}
	out, err := d.c.run(ctx, op, d.c.scripts.release, []string{
		d.c.directoryKey(), d.c.session(id),
	}, string(id), number(token), how, d.c.eventsChannel(), flag(as.Busy), reason,
		max(keep, time.Millisecond).Milliseconds(), as.Memory, as.Image)
	if err == nil && out[0] == "taken" {
		err = cluster.OwnedByAnother(op, cluster.NodeID(out[1]))
	}
	return err
}

// Find returns the owner of a session, or NotFound. It is Unavailable for a session without a record
// for one lease after the server may have lost data.
func (d Directory) Find(ctx context.Context, id cluster.SessionID) (cluster.Owner, error) {
	const op = "redis.find"
	if err := cluster.CheckSession(id); err != nil {
		return cluster.Owner{}, err
	}
	out, err := d.c.run(ctx, op, d.c.scripts.find, []string{
		d.c.directoryKey(), d.c.session(id),
	}, d.c.node(""))
	if err != nil {
		return cluster.Owner{}, err
	}
	switch out[0] {
	case "none":
		return cluster.Owner{}, cluster.NoSession(op)
	case "young":
		wait, _ := strconv.Atoi(out[1])
		return cluster.Owner{}, cluster.Young(op, time.Duration(wait)*time.Millisecond)
	}
	o := cluster.Owner{Session: id, Node: cluster.NodeID(out[1]), Live: out[3] == "live", Ended: out[5]}
	if o.Token, err = parseToken(op, out[2]); err != nil {
		return o, err
	}
	if o.Live {
		var info cluster.NodeInfo
		if err := json.Unmarshal([]byte(out[4]), &info); err != nil {
			return o, fault.Wrap(fault.Malformed, op, err)
		}
		o.Address = info.Address
	}
	if o.Node == "" {
		// Nodes of earlier versions release sessions without these.
		o.Memory, _ = strconv.ParseInt(out[6], 10, 64)
		o.Image = out[7]
	}
	return o, nil
}

// Nodes lists the nodes whose leases are valid.
func (d Directory) Nodes(ctx context.Context) ([]cluster.Node, error) {
	const op = "redis.nodes"
	out, err := d.c.run(ctx, op, d.c.scripts.nodes, []string{
		d.c.directoryKey(), d.c.nodesKey(),
	}, d.c.node(""), cluster.MaxNodes)
	if err != nil {
		return nil, err
	}
	var all []cluster.Node
	for ; len(out) >= 3; out = out[3:] {
		n := cluster.Node{ID: cluster.NodeID(out[0])}
		age, err := strconv.ParseInt(out[1], 10, 64)
		if err == nil {
			err = json.Unmarshal([]byte(out[2]), &n.NodeInfo)
		}
		if err != nil {
			return nil, fault.Wrap(fault.Malformed, op, err)
		}
		n.Age = time.Duration(age) * time.Microsecond
		all = append(all, n)
	}
	return all, nil
}

// Absent lists the nodes whose leases have ended in the last hour, and that have not left.
func (d Directory) Absent(ctx context.Context) (all []cluster.NodeID, err error) {
	out, err := d.c.run(ctx, "redis.absent", d.c.scripts.absent, []string{
		d.c.directoryKey(), d.c.nodesKey(),
	}, cluster.MaxNodes)
	for _, name := range out {
		all = append(all, cluster.NodeID(name))
	}
	return all, err
}

// Watch emits changes of ownership until ctx ends. The first event is empty, and so
// is the first one after each loss of the connection.
func (d Directory) Watch(ctx context.Context) <-chan cluster.Event {
	return d.c.events.Subscribe(ctx)
}
