package gateway

import (
	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

func (g *Gateway) createVolume(q *request) error {
	var p protocol.VolumeCreate
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	return q.call(fiber.StatusCreated, protocol.OpVolumeCreate, p, new(protocol.Volume))
}

func (g *Gateway) listVolumes(q *request) error {
	return q.call(fiber.StatusOK, protocol.OpVolumeList, struct{}{}, new(protocol.VolumeList))
}

func (g *Gateway) getVolume(q *request) error {
	ref, err := q.volume("")
	if err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpVolumeGet, ref, new(protocol.Volume))
}

func (g *Gateway) deleteVolume(q *request) error {
	ref, err := q.volume("")
	if err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpVolumeDelete, ref, nil)
}

func (g *Gateway) leaseVolume(q *request) error {
	var p protocol.VolumeLease
	if err := q.body.decode(&p, true); err != nil {
		return err
	}
	ref, err := q.volume(p.Name)
	if err != nil {
		return err
	}
	p.Name = ref.Name
	return q.call(fiber.StatusOK, protocol.OpVolumeLease, p, new(protocol.Lease))
}

func (g *Gateway) releaseVolume(q *request) error {
	var p protocol.VolumeRelease
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	ref, err := q.volume(p.Name)
	if err != nil {
		return err
	}
	p.Name = ref.Name
	return q.call(fiber.StatusOK, protocol.OpVolumeRelease, p, nil)
}

// volume is the name in the path, which the body may repeat. The node decides
// whether it exists.
func (q *request) volume(named string) (protocol.VolumeRef, error) {
	name := q.Params("id")
	if name == "" || len(name) > 64 {
		return protocol.VolumeRef{}, &fault.Error{Kind: fault.NotFound, Op: "gateway.volume", Field: "name", Message: "there is no such volume"}
	}
	if named != "" && named != name {
		return protocol.VolumeRef{}, fault.Invalid("gateway.volume", "name", "the body names another volume than the path")
	}
	return protocol.VolumeRef{Name: name}, nil
}
