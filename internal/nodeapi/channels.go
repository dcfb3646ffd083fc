package nodeapi

import (
	"context"
	"slices"

	"github.com/sandgate/sandgate/internal/session/names"
	"github.com/sandgate/sandgate/internal/session/request"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/pty"
)

func channelOpen(ctx context.Context, c *call, p protocol.ChannelOpen) (protocol.Channel, error) {
	s, err := c.session(p.Session)
	if err != nil {
		return protocol.Channel{}, err
	}
	if seed := names.Seed(ctx); seed != "" && p.Key == "" && p.Kind != "kernel" {
		p.Key = "idempotency " + seed
	}
	ch, err := s.Channels().Open(ctx, p)
	if err != nil {
		return protocol.Channel{}, err
	}
	return ch.View(), nil
}

func channelList(_ context.Context, c *call, p protocol.ChannelsWanted) (
	protocol.ChannelList, error,
) {
	s, err := c.session(p.Session)
	if err == nil && p.Env && !slices.Contains(c.principal.Scopes, string(protocol.ScopeWrite)) {
		err = fault.New(fault.PermissionDenied, "channel.list",
			"the variables of channels need the scope %s", protocol.ScopeWrite)
	}
	if err != nil {
		return protocol.ChannelList{}, err
	}
	return protocol.ChannelList{Channels: s.Channels().Views(p.Env)}, nil
}

func channelClose(ctx context.Context, c *call, p protocol.ChannelRef) (none, error) {
	s, err := c.session(p.Session)
	if err != nil {
		return none{}, err
	}
	ch, err := s.Channels().Find(p.Channel)
	if err != nil {
		return none{}, err
	}
	return none{}, s.Channels().Close(ctx, ch)
}

func signal(ctx context.Context, c *call, p protocol.Signal) (none, error) {
	if err := request.CheckSignal(p.Signal); err != nil {
		return none{}, err
	}
	v, err := c.viewer()
	if err != nil {
		return none{}, err
	}
	if v.Channel().Kind() == "kernel" {
		return none{}, fault.Invalid(c.op(), "ch", "%d is a kernel: interrupt or restart it",
			c.request.Ch)
	}
	release, err := v.session.Acquire(ctx)
	if err != nil {
		return none{}, err
	}
	defer release()
	return none{}, v.Channel().Signal(ctx, p.Signal)
}

func resize(ctx context.Context, c *call, p protocol.Resize) (none, error) {
	size := pty.Size{Cols: p.Cols, Rows: p.Rows}
	if err := size.Check(c.op()); err != nil {
		return none{}, err
	}
	v, err := c.viewer()
	if err != nil {
		return none{}, err
	}
	if !v.Channel().IsTerminal() {
		return none{}, fault.Invalid(c.op(), "ch", "%d is not a terminal", c.request.Ch)
	}
	return none{}, v.Resize(ctx, size)
}
