package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/internal/cli/filecopy"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// clientRun is the work of a command that calls the server.
type clientRun func(ctx context.Context, c *wire.Client, args []string) error

// withClient gives a command the flags of a connection, completes the arguments that its Use line
// names, and allows names in place of session ids.
func (a *app) withClient(cmd *cobra.Command, run clientRun) *cobra.Command {
	conn := connectionFlags(cmd)
	a.addCompletion(cmd, conn)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := conn.client(a)
		if err != nil {
			return err
		}
		if args, err = sessionIDs(cmd, c, args); err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
	return cmd
}

// sessionIDs replaces the names of sessions in a command's arguments and in its flag --session.
func sessionIDs(cmd *cobra.Command, c *wire.Client, args []string) ([]string, error) {
	ctx := cmd.Context()
	if f := cmd.Flags().Lookup("session"); f != nil && f.Changed {
		id, err := sessionID(ctx, c, f.Value.String())
		if err != nil {
			return nil, err
		}
		if err := f.Value.Set(id); err != nil {
			return nil, err
		}
	}
	all := argumentsOf(cmd)
	args = slices.Clone(args)
	for i, given := range args {
		arg := argumentAt(all, i)
		if arg == nil {
			continue
		}
		kinds := strings.Split(arg.name, "|")
		session, path, file := filecopy.Remote(given)
		var err error
		switch {
		case file && slices.ContainsFunc(kinds, takesFile):
			session, err = sessionID(ctx, c, session)
			args[i] = session + ":" + path
		case slices.Contains(kinds, "SESSION") && !file:
			args[i], err = sessionID(ctx, c, given)
		}
		if err != nil {
			return nil, err
		}
	}
	return args, nil
}

// takesFile reports whether an argument may be a file of a session.
func takesFile(name string) bool { return strings.HasPrefix(name, "SESSION:") }

// idPrefix begins the ids of sessions.
const idPrefix = "s_"

// sessionID returns the id of the session that ref names. If ref is not the name of a session, it
// returns ref, and the server decides.
func sessionID(ctx context.Context, c *wire.Client, ref string) (string, error) {
	if ref == "" || strings.HasPrefix(ref, idPrefix) {
		return ref, nil
	}
	all, err := c.SelectSessions(ctx, protocol.SessionQuery{Name: ref})
	if err != nil {
		return "", err
	}
	found := ref
	for _, s := range all.Sessions {
		switch {
		case s.Name != ref || s.State == "lost" && found != ref:
		case found != ref:
			return "", fault.New(fault.Conflict, "session.name",
				"several sessions have the name %s; use an id", output.Printable(ref))
		default:
			found = s.ID
		}
	}
	return found, nil
}

// withConfig gives a command the flags of the server's settings.
func (a *app) withConfig(cmd *cobra.Command, run func(ctx context.Context, cfg *config.Config,
	args []string) error,
) *cobra.Command {
	load := a.configFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		return run(cmd.Context(), cfg, args)
	}
	return cmd
}

// configFlags adds a flag for every setting, and returns a function that loads the settings.
func (a *app) configFlags(cmd *cobra.Command) func() (*config.Config, error) {
	cmd.Flags().AddGoFlagSet(a.settings)
	return func() (*config.Config, error) { return config.Load(a.flags, a.Env) }
}
