package edition

import (
	"context"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Check checks that a node can restore snapshots of an edition. A node whose Store is nil has one
// edition: the runtime, and the image in a file. Errors: those of Find.
func (s *Store) Check(ctx context.Context, of, runtime, image string) error {
	const op = "edition.check"
	id, ok := Parse(of)
	if ok && s != nil {
		_, err := s.Find(ctx, id, false)
		return err
	}
	own, err := ImageID(image)
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	if id != (ID{runtime, own}) {
		return fault.New(fault.Conflict, op, "%q is another runtime or image", of)
	}
	return nil
}
