package e2e

import (
	"context"
	"net/http"
	"syscall"
	"time"
)

// ReplaceGateway kills the gateway and waits until another one answers.
func (s *Server) ReplaceGateway(ctx context.Context) error {
	pid, err := s.Child("gateway")
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if next, err := s.Child("gateway"); err == nil && next != pid {
			if code, err := s.Get(ctx, "/readyz", nil); err == nil && code == http.StatusOK {
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
