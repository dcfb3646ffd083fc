package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

func keyCommand() command {
	return command{
		name: "key", args: "create | ls | rotate KEY | revoke KEY...", short: "Make, list, rotate and revoke API keys",
		long: `
  sandgate key create --name ci --role driver --expires 720h
  sandgate key create --tenant acme --role owner --max-sessions 10
  sandgate key ls --all
  sandgate key rotate --keep 1h KEY
  sandgate key revoke KEY

Roles: admin (everything, and all tenants), owner (everything in its tenant),
driver (runs code, writes files), viewer (reads), run (POST /v1/run alone),
metrics (GET /metrics alone, for Prometheus). A key's secret is printed once, on
standard output; the server keeps its hash. KEY is an id of ls. What the key is
revoked for takes effect at once: its connections are closed.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			p := protocol.KeyCreate{}
			set.StringVar(&p.Name, "name", "", "What the key is for, up to 64 bytes (create).")
			set.StringVar(&p.Role, "role", "owner", "Its `role`: admin, owner, driver, viewer, run or metrics (create).")
			set.StringVar(&p.Tenant, "tenant", "", "Whose it is; your own tenant if empty (create, ls).")
			expires := set.Duration("expires", 0, "End it after this time, such as 720h; 0 means never (create).")
			keep := set.Duration("keep", 0, "How long the present secret stays good (rotate).")
			all := set.Bool("all", false, "Those of all tenants (ls).")
			quiet := set.Bool("q", false, "Print the ids alone (ls).")
			quotaFlags(set, &p.Quota)
			verb, err := verbOf(set, args, map[string][2]int{"create": {0, 0}, "ls": {0, 0}, "rotate": {1, 1}, "revoke": {1, -1}})
			if err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			switch verb {
			case "create":
				p.ExpiresSeconds = int64(*expires / time.Second)
				k, err := c.CreateKey(ctx, p)
				return a.tellKey(c, k, err)
			case "rotate":
				k, err := c.RotateKey(ctx, protocol.KeyRotate{ID: set.Arg(0), KeepSeconds: int64(*keep / time.Second)})
				return a.tellKey(c, k, err)
			case "revoke":
				return a.revokeKeys(ctx, c, set.Args())
			}
			keys, err := c.Keys(ctx, protocol.KeyQuery{Tenant: p.Tenant, All: *all})
			if err != nil {
				return err
			}
			return a.listKeys(keys, *quiet)
		},
	}
}

// verbOf parses flags that stand before and behind a verb, and checks how many
// arguments follow it.
func verbOf(set *flag.FlagSet, args []string, verbs map[string][2]int) (string, error) {
	if err := set.Parse(args); err != nil {
		return "", &parseError{err}
	}
	verb := set.Arg(0)
	n, known := verbs[verb]
	if !known {
		var all []string
		for v := range verbs {
			all = append(all, v)
		}
		slices.Sort(all)
		return "", usagef("say one of %s", strings.Join(all, ", "))
	}
	return verb, parse(set, set.Args()[1:], n[0], n[1])
}

// tellKey prints the secret alone on standard output, for scripts.
func (a *app) tellKey(c *client.Client, k protocol.NewKey, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Out, k.Secret)
	fmt.Fprintf(a.Err, "Key %s, %s of the tenant %s. This is the only time that its secret is shown.\n", k.Key.ID, k.Key.Role, k.Key.Tenant)
	if k.Key.Role != "run" && k.Key.Role != "metrics" {
		fmt.Fprintf(a.Err, "Whoever opens %s/#token=<secret> is signed in with it.\n", c.URL())
	}
	return nil
}

func (a *app) revokeKeys(ctx context.Context, c *client.Client, ids []string) error {
	var first error
	for _, id := range ids {
		switch err := c.RevokeKey(ctx, id); {
		case err != nil && first == nil:
			first = err
		case err != nil:
			a.fail(err)
		}
	}
	return first
}

func (a *app) listKeys(keys []protocol.Key, quiet bool) error {
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	if !quiet && len(keys) > 0 {
		fmt.Fprintln(w, "ID\tTENANT\tROLE\tAGE\tEXPIRES\tQUOTA\tNAME")
	}
	for _, k := range keys {
		if quiet {
			fmt.Fprintln(w, k.ID)
			continue
		}
		expires := "never"
		switch {
		case k.Expired:
			expires = "has expired"
		case k.ExpiresMS != 0:
			expires = "in " + since(2*time.Now().UnixMilli()-k.ExpiresMS)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Tenant, k.Role, since(k.CreatedMS), expires, quotaText(k.Quota), printable(k.Name))
	}
	return w.Flush()
}
