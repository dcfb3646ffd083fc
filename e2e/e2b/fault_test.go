package e2b

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// TestGatewayDies kills the gateway under each kind of stream. The SDK reports the error, and continues
// once it connects again.
func TestGatewayDies(t *testing.T) {
	d, err := deploy(deadline(t))
	check(t, err)
	t.Cleanup(func() { check(t, d.stop()) })
	d.checks(t, run{"faults", "e2b", "@e2b/code-interpreter", "url", "faults"}, 1)
}

// limited is the tenant of TestRateLimits.
const limited = "other-testratelimits"

// TestRateLimits bounds a tenant. The SDK repeats what was refused, and succeeds, or throws the error
// of its documentation.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	d := other(t, server(t))
	d.checks(t, run{"limits", "e2b", "none", "url", "limits"}, 1)
}

// replaceGateway kills the gateway and waits until another one answers.
func (d *deployment) replaceGateway(ctx context.Context, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if next, err := d.Child("gateway"); err == nil && next != pid {
			if code, err := d.Get(ctx, "/readyz", nil); err == nil && code == 200 {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
