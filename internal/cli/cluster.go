package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/noderpc"
)

func clusterCommand() command {
	return command{
		name: "cluster", args: "init FOLDER | join FOLDER NAME | delegate FOLDER", short: "Make the certificates with which a cluster's machines know each other",
		long: `
init makes a certificate authority in FOLDER. Keep it: whoever has ca.key can
make nodes and gateways. join makes, with the authority in FOLDER, what the
machine NAME needs as a node and as a gateway, in --out: copy that folder to the
machine's cluster.dir. Certificates are good for a year; join makes new ones.

delegate makes in --out an authority that can make nodes and nothing else, for
machines that join by themselves, as those of Kubernetes do: join takes its
folder in the place of FOLDER. Its machines cannot pass for gateways.`,
		run: func(_ context.Context, a *app, set *flag.FlagSet, args []string) error {
			out := set.String("out", "", "`Folder` that join and delegate write to. Default NAME, or nodes, below FOLDER.")
			verb, err := verbOf(set, args, map[string][2]int{"init": {1, 1}, "join": {2, 2}, "delegate": {1, 1}})
			if err != nil {
				return err
			}
			switch verb {
			case "join":
				return admin.JoinCluster(a.Invocation, set.Arg(0), set.Arg(1), *out)
			case "delegate":
				return admin.DelegateNodes(a.Invocation, set.Arg(0), *out)
			}
			if err := noderpc.MakeCA(set.Arg(0)); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "made a certificate authority in %s\n", set.Arg(0))
			return nil
		},
	}
}
