package noderouter

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// listNodes lists the nodes. A node that has a valid lease and does not answer is listed as its last
// heartbeat describes it.
func listNodes(r *Router, ctx context.Context, who noderpc.Principal, _ json.RawMessage) (
	json.RawMessage, error,
) {
	known, err := r.placer.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	answers, err := r.ask(ctx, who, protocol.OpNodeList, struct{}{})
	if err != nil {
		return nil, err
	}
	list := nodes.NodeList{Nodes: []nodes.NodeInfo{}}
	for _, a := range answers {
		var one nodes.NodeList
		if a.err == nil {
			a.err = json.Unmarshal(a.raw, &one)
		}
		if a.err != nil {
			one.Nodes = []nodes.NodeInfo{silent(a.of.id, known)}
		}
		list.Nodes = append(list.Nodes, one.Nodes...)
		if list.Parked == nil { // all nodes count the same sessions
			list.Parked = one.Parked
		}
		if list.Stored == nil {
			list.Stored = one.Stored
		}
	}
	slices.SortFunc(list.Nodes, func(a, b nodes.NodeInfo) int {
		return cmp.Compare(a.Name, b.Name)
	})
	out, err := json.Marshal(list)
	return out, fault.Wrap(fault.Internal, "noderouter.nodes", err)
}

// silent describes a node that does not answer.
func silent(id cluster.NodeID, known []cluster.Node) nodes.NodeInfo {
	info := nodes.NodeInfo{Name: string(id), State: nodes.Unreachable}
	for _, n := range known {
		if n.ID == id {
			n.Report(&info)
		}
	}
	return info
}

// chosen returns the node that a request names.
func chosen(ctx context.Context, r *Router, params json.RawMessage) (*nodeConn, error) {
	var named struct {
		Node cluster.NodeID `json:"node"`
	}
	_ = json.Unmarshal(params, &named) // then there is no such node
	known, err := r.placer.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range known {
		if n.ID == named.Node {
			return r.conn(n.ID, n.Address)
		}
	}
	return nil, cluster.NoNode("noderouter.node")
}
