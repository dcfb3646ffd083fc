package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

func snapshotCommand(a *app) *cobra.Command {
	return group("snapshot", "Create, list and delete snapshots of sessions", `
A snapshot is a copy of a session's state that new sessions continue from. SNAPSHOT is an id or a
name.`,
		`  sandgate snapshot create --name clean s_abc
  sandgate session create --snapshot clean`,
		snapshotCreate(a), snapshotList(a), snapshotGet(a), snapshotStart(a),
		a.eachSession(&cobra.Command{
			Use: "delete SNAPSHOT...", Short: "Delete snapshots",
			Example: "  sandgate snapshot delete clean",
		}, func(ctx context.Context, c *wire.Client,
			ref string,
		) error {
			return c.DeleteSnapshot(ctx, ref)
		}),
	)
}

func snapshotCreate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "create SESSION",
		Short:   "Take a snapshot of a session, which continues, and print its id",
		Example: "  sandgate snapshot create --name clean --expires 48h s_abc",
	}
	name := c.Flags().String("name", "", "its `name`")
	expires := c.Flags().Duration("expires", 0,
		"delete it after this `time`, such as 48h; 0 means never")
	return a.withClient(c, func(ctx context.Context, server *wire.Client, args []string) error {
		s, err := server.TakeSnapshot(ctx, protocol.SnapshotCreate{
			Session: args[0], Name: *name,
			ExpiresSeconds: int64(*expires / time.Second),
		})
		if err == nil {
			fmt.Fprintln(a.Out, s.ID)
		}
		return err
	})
}

// snapshotStart is an earlier spelling of session create --snapshot.
func snapshotStart(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "start SNAPSHOT", Short: "Create a session that continues from a snapshot",
		Hidden:  true,
		Example: "  sandgate session create --snapshot clean",
	}
	name := c.Flags().String("name", "", "the `name` of the session")
	return a.withClient(c, func(ctx context.Context, server *wire.Client, args []string) error {
		s, err := server.CreateSession(ctx, protocol.SessionCreate{Snapshot: args[0], Name: *name})
		if err == nil {
			fmt.Fprintln(a.Out, s.ID)
		}
		return err
	})
}

func snapshotList(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the snapshots",
		Example: "  sandgate snapshot list -q",
	}
	o := listFlags(c)
	return a.withClient(c, func(ctx context.Context, server *wire.Client, _ []string) error {
		all, err := server.Snapshots(ctx)
		if err != nil {
			return err
		}
		return output.List(o.printer(a), protocol.SnapshotList{Snapshots: all}, all,
			snapshotColumns())
	})
}

func snapshotGet(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "get SNAPSHOT", Short: "Show one snapshot",
		Example: "  sandgate snapshot get clean",
	}
	o := outputFlag(c, output.Table)
	return a.withClient(c, func(ctx context.Context, server *wire.Client, args []string) error {
		s, err := server.Snapshot(ctx, args[0])
		if err != nil {
			return err
		}
		return output.Object(output.Printer{W: a.Out, Format: *o}, s, snapshotColumns())
	})
}

func snapshotColumns() []output.Column[protocol.Snapshot] {
	return []output.Column[protocol.Snapshot]{
		{Name: "ID", Text: func(s protocol.Snapshot) string { return s.ID }},
		{Name: "NAME", Text: func(s protocol.Snapshot) string { return output.Printable(s.Name) }},
		{Name: "LANGUAGE", Text: func(s protocol.Snapshot) string { return s.Language }},
		{Name: "AGE", Text: func(s protocol.Snapshot) string { return output.Age(s.CreatedMS) }},
		{Name: "SIZE", Text: func(s protocol.Snapshot) string {
			return config.Size(s.Bytes >> 20 << 20).String()
		}},
		{Name: "EXPIRES", Text: func(s protocol.Snapshot) string { return output.Expiry(s.ExpiresMS) }},
		{Name: "STATE", Text: func(s protocol.Snapshot) string { return s.State }},
		{
			Name: "PAUSE", Wide: true,
			Text: func(s protocol.Snapshot) string { return fmt.Sprintf("%.1f ms", s.PauseMS) },
		},
		{Name: "SESSION", Text: func(s protocol.Snapshot) string { return s.Session }},
	}
}
