package session

import (
	"context"
	"fmt"

	"github.com/sandgate/sandgate/protocol"
)

func count(n int, noun string) string {
	if n == 1 {
		return "one " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func opVolumeCreate(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.VolumeCreate](r)
	if err != nil {
		return nil, err
	}
	return c.m.volumes.Create(c.principal, p)
}

func opVolumeList(_ context.Context, c *linkHandler, _ protocol.Request) (any, error) {
	return c.m.volumes.List(c.principal), nil
}

func opVolumeGet(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.VolumeRef](r)
	if err != nil {
		return nil, err
	}
	return c.m.volumes.Get(c.principal, p.Name)
}

func opVolumeDelete(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.VolumeRef](r)
	if err != nil {
		return nil, err
	}
	return nothing{}, c.m.volumes.Delete(c.principal, p.Name)
}

func opVolumeLease(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.VolumeLease](r)
	if err != nil {
		return nil, err
	}
	return c.m.volumes.Lease(c.principal, p)
}

func opVolumeRelease(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.VolumeRelease](r)
	if err != nil {
		return nil, err
	}
	return nothing{}, c.m.volumes.Release(c.principal, p)
}
