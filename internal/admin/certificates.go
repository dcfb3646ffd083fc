package admin

import (
	"fmt"
	"path/filepath"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/noderpc"
)

// JoinCluster creates in out the certificates that the machine name needs, signed by the authority
// in ca.
func JoinCluster(a *console.Invocation, ca, name, out string) error {
	if err := cluster.CheckNode(cluster.NodeID(name)); err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(ca, name)
	}
	roles, err := noderpc.Roles(ca)
	if err != nil {
		return err
	}
	for _, role := range roles {
		if err := noderpc.Issue(ca, out, role, name); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.Out, "made the certificates of %s in %s\n", name, out)
	return nil
}

// DelegateNodes creates in out an authority that can sign certificates of nodes only.
func DelegateNodes(a *console.Invocation, ca, out string) error {
	if out == "" {
		out = filepath.Join(ca, "nodes")
	}
	if err := noderpc.Delegate(ca, out); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "made an authority for nodes alone in %s\n", out)
	return nil
}

// InitCluster creates a certificate authority in ca.
func InitCluster(a *console.Invocation, ca string) error {
	if err := noderpc.MakeCA(ca); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "made a certificate authority in %s\n", ca)
	return nil
}
