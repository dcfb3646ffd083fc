package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/protocol"
)

func keyCommand(a *app) *cobra.Command {
	return group("key", "Create, list, rotate and revoke API keys", `
Roles: admin (everything, and all tenants), owner (everything in its tenant), driver (runs code,
writes files), viewer (reads), run (POST /v1/run alone), metrics (GET /metrics alone, for
Prometheus). KEY is an id that list prints.`,
		`  sandgate key create --name ci --role driver --expires 720h
  sandgate key list --all
  sandgate key rotate --keep 1h KEY
  sandgate key revoke KEY`,
		keyCreate(a), keyList(a), keyRotate(a),
		a.eachSession(&cobra.Command{
			Use: "revoke KEY...", Short: "Revoke keys and close their connections",
			Example: "  sandgate key revoke KEY",
		}, func(ctx context.Context, c *wire.Client, id string) error {
			return c.RevokeKey(ctx,
				id)
		}),
	)
}

func keyCreate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "create", Short: "Create a key and print its secret",
		Long: `
The secret is printed once, on standard output; the server stores its hash.`,
		Example: `  sandgate key create --name ci --role driver --expires 720h
  sandgate key create --tenant acme --role owner --max-sessions 10
  sandgate key create --e2b --name agents --role driver`,
	}
	p := protocol.KeyCreate{}
	c.Flags().StringVar(&p.Name, "name", "", "its purpose, up to 64 bytes")
	c.Flags().StringVar(&p.Role, "role", "owner",
		"its `role`: admin, owner, driver, viewer, run or metrics")
	c.Flags().StringVar(&p.Tenant, "tenant", "", "its `tenant`; default your own")
	expires := c.Flags().Duration("expires", 0,
		"end it after this `time`, such as 720h; 0 means never")
	e2b := c.Flags().Bool("e2b", false, "print the secret in the form that clients of E2B accept")
	quotaFlags(c.Flags(), &p.Quota)
	return a.withClient(c, func(ctx context.Context, server *wire.Client, _ []string) error {
		p.ExpiresSeconds = int64(*expires / time.Second)
		k, err := server.CreateKey(ctx, p)
		if *e2b {
			k.Secret = e2bname.HexKey(k.Secret)
		}
		return a.printSecret(server, k, err)
	})
}

func keyRotate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "rotate KEY", Short: "Give a key a new secret and print it",
		Example: "  sandgate key rotate --keep 1h KEY",
	}
	keep := c.Flags().Duration("keep", 0, "how long the old secret remains valid")
	return a.withClient(c, func(ctx context.Context, server *wire.Client, args []string) error {
		k, err := server.RotateKey(ctx,
			protocol.KeyRotate{ID: args[0], KeepSeconds: int64(*keep / time.Second)})
		return a.printSecret(server, k, err)
	})
}

// printSecret prints the secret alone on standard output, for scripts.
func (a *app) printSecret(c *wire.Client, k protocol.NewKey, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Out, k.Secret)
	fmt.Fprintf(
		a.Err, "Key %s, %s of the tenant %s. This is the only time that its secret is shown.\n",
		k.Key.ID, k.Key.Role, k.Key.Tenant)
	if k.Key.Role != "run" && k.Key.Role != "metrics" {
		fmt.Fprintf(a.Err, "The address %s/#token=<secret> signs in with it.\n", c.URL())
	}
	return nil
}

func keyList(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the keys",
		Example: "  sandgate key list --all -o wide",
	}
	var q protocol.KeyQuery
	c.Flags().StringVar(&q.Tenant, "tenant", "", "list the keys of this `tenant`; default your own")
	c.Flags().BoolVar(&q.All, "all", false, "list the keys of all tenants")
	o := listFlags(c)
	return a.withClient(c, func(ctx context.Context, server *wire.Client, _ []string) error {
		all, err := server.Keys(ctx, q)
		if err != nil {
			return err
		}
		return output.List(o.printer(a), protocol.KeyList{Keys: all}, all, keyColumns())
	})
}

func keyColumns() []output.Column[protocol.Key] {
	return []output.Column[protocol.Key]{
		{Name: "ID", Text: func(k protocol.Key) string { return k.ID }},
		{Name: "TENANT", Text: func(k protocol.Key) string { return k.Tenant }},
		{Name: "ROLE", Text: func(k protocol.Key) string { return k.Role }},
		{Name: "AGE", Text: func(k protocol.Key) string { return output.Age(k.CreatedMS) }},
		{Name: "EXPIRES", Text: func(k protocol.Key) string {
			if k.Expired {
				return "has expired"
			}
			return output.Expiry(k.ExpiresMS)
		}},
		{Name: "ROTATED", Wide: true, Text: func(k protocol.Key) string {
			if k.RotatedMS == 0 {
				return "-"
			}
			return output.Age(k.RotatedMS)
		}},
		{
			Name: "CREATED BY", Wide: true,
			Text: func(k protocol.Key) string {
				return cmp.Or(output.Printable(k.CreatedBy),
					"-")
			},
		},
		{Name: "QUOTA", Text: func(k protocol.Key) string { return quotaText(k.Quota) }},
		{Name: "NAME", Text: func(k protocol.Key) string { return output.Printable(k.Name) }},
	}
}
