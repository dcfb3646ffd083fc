// Package upgrade has the commands on the upgrade of a server to another runtime or image.
package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Run carries out a command.
type Run = func(ctx context.Context, server *wire.Client, args []string) error

// program has the functions of the program that the commands use.
type program struct {
	client func(c *cobra.Command, run Run) *cobra.Command
	list   func(c *cobra.Command) func() output.Printer
}

// Command returns the command upgrade, with the commands below it. client lets a command call run
// with a client and its arguments. list adds the flags of lists to a command, and returns the printer
// that they ask for.
func Command(client func(c *cobra.Command, run Run) *cobra.Command,
	list func(c *cobra.Command) func() output.Printer,
) *cobra.Command {
	a := program{client, list}
	c := &cobra.Command{
		Use: "upgrade", Short: "Show the upgrade of the nodes to another runtime or image", Long: `
A session continues with the runtime and the image that its memory needs. After an upgrade, a node
keeps the earlier ones for the time upgrade.window.`,
		Example: "  sandgate cluster upgrade status",
	}
	c.AddCommand(status(a))
	return c
}

func status(a program) *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "List the runtimes and images of all nodes, and what still needs them",
		Long: `
An edition is a runtime and an image. The table has the editions that each node keeps, and those that
a session or a snapshot on it needs. The rows of the node "-" have the sessions and the editions in the
blob store, from where a node that lacks an edition fetches it. The command needs a key with the scope
admin.`,
		Example: "  sandgate cluster upgrade status",
	}
	printer := a.list(c)
	return a.client(c, func(ctx context.Context, server *wire.Client, _ []string) error {
		list, err := server.Nodes(ctx)
		if err != nil {
			return err
		}
		p := printer()
		if err := output.List(p, list, rowsOf(list), columns()); err != nil {
			return err
		}
		if p.Format != output.JSON && !p.Quiet {
			for _, line := range plan(list, time.Now()) {
				fmt.Fprintln(p.W, line)
			}
		}
		return nil
	})
}

// row is an edition on a node.
type row struct {
	nodes.Edition
	node, state string
	// stored is true for an edition in the blob store.
	stored bool
}

// store is the node of the sessions in the blob store.
const store = "-"

func rowsOf(list nodes.NodeList) (rows []row) {
	for _, n := range list.Nodes {
		if len(n.Editions) == 0 {
			rows = append(rows, row{node: n.Name, state: n.State})
		}
		for _, e := range n.Editions {
			r := row{Edition: e, node: n.Name, state: "earlier"}
			switch {
			case e.Current:
				r.state = "current"
			case e.Missing:
				r.state = "missing"
			}
			rows = append(rows, r)
		}
	}
	others := map[string]bool{}
	for _, id := range list.Stored {
		others[id] = true
	}
	for id := range list.Parked {
		others[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(others)) {
		r := row{node: store, state: "stored"}
		if r.ID, r.Hibernated = id, list.Parked[id]; r.Hibernated > 0 {
			r.state = "parked"
		}
		rows = append(rows, r)
	}
	for i := range rows {
		rows[i].stored = slices.Contains(list.Stored, rows[i].ID)
	}
	return rows
}

func columns() []output.Column[row] {
	count := func(name string, n func(row) int) output.Column[row] {
		return output.Column[row]{Name: name, Text: func(r row) string {
			return strconv.Itoa(n(r))
		}}
	}
	return []output.Column[row]{
		{Name: "NODE", Text: func(r row) string { return output.Printable(r.node) }},
		{Name: "EDITION", Narrow: true, Text: func(r row) string { return short(r.ID) }},
		{Name: "EDITION", Wide: true, Text: func(r row) string { return output.Printable(r.ID) }},
		{Name: "GVISOR", Wide: true, Text: func(r row) string {
			return cmp.Or(output.Printable(r.GVisor), "-")
		}},
		{Name: "STATE", Text: func(r row) string { return r.state }},
		count("SESSIONS", func(r row) int { return r.Sessions }),
		count("HIBERNATED", func(r row) int { return r.Hibernated }),
		count("COPIES", func(r row) int { return r.Copies }),
		count("SNAPSHOTS", func(r row) int { return r.Snapshots }),
		{Name: "STORED", Text: func(r row) string {
			if r.stored {
				return "yes"
			}
			return "-"
		}},
		{Name: "MIB", Wide: true, Text: func(r row) string {
			return strconv.FormatInt(r.Bytes>>20, 10)
		}},
		{Name: "ENDS", Text: func(r row) string {
			if r.EndsMS == 0 {
				return "-"
			}
			return time.UnixMilli(r.EndsMS).UTC().Format(time.DateTime)
		}},
	}
}

// short abbreviates an edition: the first digits of the runtime and of the image.
func short(id string) string {
	const digits = 8
	runtime, image, _ := strings.Cut(id, "-")
	if runtime == "" {
		return "-"
	}
	return output.Printable(runtime[:min(len(runtime), digits)] + "-" +
		image[:min(len(image), digits)])
}

// plan returns sentences about the steps that are left.
func plan(list nodes.NodeList, now time.Time) (lines []string) {
	newest := newestOf(list)
	var behind []string
	kept := map[string]bool{}
	need, missing := 0, 0
	var last int64
	for _, n := range list.Nodes {
		for _, e := range n.Editions {
			kept[e.ID] = kept[e.ID] || !e.Missing
			uses := e.Sessions + e.Hibernated + e.Copies + e.Snapshots
			switch {
			case e.Current && e.ID != newest.ID:
				behind = append(behind, n.Name)
			case e.Missing:
				missing += uses
			case !e.Current:
				need += uses
			}
			if !e.Current && uses > 0 {
				last = max(last, e.EndsMS)
			}
		}
	}
	for id, n := range list.Parked {
		if !kept[id] && !slices.Contains(list.Stored, id) {
			missing += n
		} else if id != newest.ID {
			need += n
		}
	}
	if len(behind) > 0 {
		lines = append(lines, fmt.Sprintf("%d of %d nodes have another edition than %s for new sessions: %s",
			len(behind), len(list.Nodes), short(newest.ID),
			output.Printable(strings.Join(behind, ", "))))
	}
	if need > 0 {
		end := "until their window ends"
		if last > 0 {
			end = fmt.Sprintf("until %s at the latest",
				time.UnixMilli(last).UTC().Format(time.DateTime))
			if now.UnixMilli() > last {
				end = "until the next survey"
			}
		}
		lines = append(lines, fmt.Sprintf(
			"%d sessions, copies and snapshots need an earlier edition. Nodes keep it %s.", need, end))
	}
	if missing > 0 {
		lines = append(lines, fmt.Sprintf(
			"%d sessions, copies and snapshots need an edition that their node, or every node, lacks.",
			missing))
	}
	if len(lines) == 0 {
		lines = []string{"All nodes have the same edition, and nothing needs an earlier one."}
	}
	return lines
}

// newestOf returns the edition of new sessions that a node has begun to use last.
func newestOf(list nodes.NodeList) (newest nodes.Edition) {
	for _, n := range list.Nodes {
		for _, e := range n.Editions {
			if e.Current && e.BeganMS >= newest.BeganMS {
				newest = e
			}
		}
	}
	return newest
}
