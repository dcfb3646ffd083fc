package admin

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/profile"
	"github.com/sandgate/sandgate/internal/server"
	"github.com/sandgate/sandgate/protocol/fault"
)

// RotateToken replaces the current token with a new one. The old token remains valid for keep. A
// running server accepts the new one at once.
func RotateToken(ctx context.Context, a *console.Invocation, cfg *config.Config,
	keep time.Duration,
) error {
	caller := server.FindCaller(a)
	previous, token, err := server.ReplaceToken(cfg.TokenFile(), caller, keep)
	if err != nil {
		return err
	}
	address := "http://" + cfg.Listen
	if p, err := profile.Read(filepath.Join(caller.Home, profile.Path)); err == nil &&
		p.Token == previous {
		address = p.URL
		if err := profile.Write(caller.Home, caller.UID, caller.GID,
			profile.Profile{URL: p.URL, Token: token}); err != nil {
			fmt.Fprintf(a.Err,
				"warning: the profile for the command line could not be written: %v\n", err)
		}
	}
	_, err = server.AskReload(ctx, cfg, server.ReloadRequest{})
	switch {
	case fault.Is(err, fault.Unavailable):
		fmt.Fprintln(a.Err, "No server runs with this run_dir; the next start uses the new token.")
		fmt.Fprintln(a.Err, "A gateway that runs alone reads it within five seconds.")
	case err != nil:
		return err
	}
	fmt.Fprintf(a.Out, "%s/#token=%s\n", address, token)
	if keep > 0 {
		fmt.Fprintf(a.Err, "The token before is good for another %s.\n", keep)
	}
	return nil
}
