package client

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/stream"
)

// Watch tells of changes until ctx ends or what is watched is gone. It calls
// opened once it watches. ch is a number that no channel and no other transfer
// has or had.
func (c *Client) Watch(ctx context.Context, ch uint32, p wire.FileWatch, opened func(wire.FileStat), tell func(wire.FileChanges) error) error {
	var stat wire.FileStat
	lines := &changeLines{tell: tell}
	return c.download(ctx, wire.OpFileWatch, ch, p, &stat, func() (int64, error) {
		opened(stat)
		return -1, nil
	}, lines)
}

// changeLines cuts what is written to it into lines.
type changeLines struct {
	tell func(wire.FileChanges) error
	rest []byte
}

func (l *changeLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := slices.Index(l.rest, '\n')
		if i < 0 {
			break
		}
		var c wire.FileChanges
		if err := json.Unmarshal(l.rest[:i], &c); err != nil {
			return 0, fault.Wrap(fault.Malformed, "agent.file.watch", err)
		}
		l.rest = l.rest[i+1:]
		if err := l.tell(c); err != nil {
			return 0, err
		}
	}
	if len(l.rest) > stream.MaxBody {
		return 0, fault.New(fault.Malformed, "agent.file.watch", "the agent sends a line without an end")
	}
	return len(p), nil
}

// Link makes a symbolic link.
func (c *Client) Link(ctx context.Context, p wire.FileLink) error {
	return c.call(ctx, wire.OpFileLink, 0, p, nil)
}
