package redis

import (
	"context"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// ConsistencyCheck compares the records of the directory and of the quota ledger with each other.
// It reads all keys and blocks the server meanwhile: it is for tests and for debugging.
func (d Directory) ConsistencyCheck(ctx context.Context) error {
	const op = "redis.check"
	wrong, err := d.c.run(ctx, op, d.c.scripts.checkDirectory, []string{
		d.c.directoryKey(), d.c.nodesKey(),
	},
		d.c.node(""), d.c.session(""), d.c.prefix+"held:", d.c.prefix+"left:")
	return inconsistent(op, wrong, err)
}

// ConsistencyCheck compares the run tokens with their indexes. It reads all keys and blocks the
// server meanwhile: it is for tests and for debugging.
func (s RunTokenStore) ConsistencyCheck(ctx context.Context) error {
	const op = "redis.check"
	p := s.c.prefix + "run:"
	wrong, err := s.c.run(ctx, op, s.c.scripts.checkRunTokens, []string{p + "out", s.embedKey()},
		p+"ticket:", p+"places:", p+"origin:")
	return inconsistent(op, wrong, err)
}

// inconsistent returns the error of a check that found something.
func inconsistent(op string, wrong []string, err error) error {
	if err == nil && len(wrong) > 0 {
		err = fault.New(fault.Internal, op, "%s", strings.Join(wrong, "; "))
	}
	return err
}
