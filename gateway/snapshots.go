package gateway

import (
	"net/url"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

func (g *Gateway) forkSession(q *request) error {
	var p protocol.SessionFork
	id, err := q.aboutSession(&p, func() string { return p.Session })
	if err != nil {
		return err
	}
	p.Session = id
	return q.call(fiber.StatusCreated, protocol.OpFork, p, new(protocol.Forks))
}

func (g *Gateway) takeSnapshot(q *request) error {
	var p protocol.SnapshotCreate
	id, err := q.aboutSession(&p, func() string { return p.Session })
	if err != nil {
		return err
	}
	p.Session = id
	return q.call(fiber.StatusCreated, protocol.OpSnapshot, p, new(protocol.Snapshot))
}

// aboutSession decodes a body, which may be empty, and returns the session of
// the path, which the body may repeat.
func (q *request) aboutSession(p any, named func() string) (string, error) {
	id, err := q.session()
	if err != nil {
		return "", err
	}
	if err := q.body.decode(p, true); err != nil {
		return "", err
	}
	if s := named(); s != "" && s != id {
		return "", fault.Invalid("gateway.session", "session", "the body names another session than the path")
	}
	return id, nil
}

func (g *Gateway) listSnapshots(q *request) error {
	return q.call(fiber.StatusOK, protocol.OpSnapshotList, struct{}{}, new(protocol.SnapshotList))
}

func (g *Gateway) getSnapshot(q *request) error {
	ref, err := q.snapshot()
	if err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpSnapshotGet, ref, new(protocol.Snapshot))
}

func (g *Gateway) deleteSnapshot(q *request) error {
	ref, err := q.snapshot()
	if err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpSnapshotDel, ref, nil)
}

// snapshot is the id or the name in the path.
func (q *request) snapshot() (protocol.SnapshotRef, error) {
	ref, err := url.PathUnescape(q.Params("id"))
	if err != nil || ref == "" || len(ref) > 128 {
		return protocol.SnapshotRef{}, &fault.Error{Kind: fault.NotFound, Op: "gateway.snapshot", Field: "snapshot", Message: "there is no such snapshot"}
	}
	return protocol.SnapshotRef{Snapshot: ref}, nil
}
