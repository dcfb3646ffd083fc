package admin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// JoinCluster creates in out the certificates of the machine name for its role, node, gateway or
// both, signed by the authority in ca. A machine gets no certificate that its role does not need.
// Errors: Conflict if out has a certificate of another role, or if the authority in ca cannot sign
// the role.
func JoinCluster(a *console.Invocation, ca, name, role, out string) error {
	const op = "cluster.join"
	if err := cluster.CheckNode(cluster.NodeID(name)); err != nil {
		return err
	}
	roles := []string{role}
	switch role {
	case noderpc.RoleNode, noderpc.RoleGateway:
	case "both":
		roles = []string{noderpc.RoleNode, noderpc.RoleGateway}
	default:
		return fault.Invalid(op, "role", "--role says if the machine is a node, a gateway or both")
	}
	if out == "" {
		out = filepath.Join(ca, name)
	}
	can, err := noderpc.Roles(ca)
	if err != nil {
		return err
	}
	for _, r := range []string{noderpc.RoleNode, noderpc.RoleGateway} {
		switch {
		case slices.Contains(roles, r) && !slices.Contains(can, r):
			return fault.New(fault.Conflict, op, "the authority in %s can sign certificates of %ss only",
				ca, strings.Join(can, " and "))
		case !slices.Contains(roles, r):
			if _, err := os.Stat(filepath.Join(out, r+".key")); err == nil {
				return fault.New(fault.Conflict, op,
					"%s has the certificate of a %s, which this role does not need; remove it or name another folder",
					out, r)
			}
		}
	}
	for _, r := range roles {
		if err := noderpc.Issue(ca, out, r, name); err != nil {
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
