package noderouter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// defaultLanguage is the language of a session that names none.
const defaultLanguage = "python"

// placement returns the node for something new.
type placement func(
	ctx context.Context, r *Router, who noderpc.Principal, params json.RawMessage,
) (*nodeConn, error)

// placements returns the placement of each operation with the target PlacedNode.
func placements() map[string]placement {
	return map[string]placement{
		protocol.OpSessionCreate: placeSession,
		protocol.OpTemplateBuild: placeTemplate,
		protocol.OpVolumeCreate:  placeVolume,
		protocol.OpRepeatBegin:   placeRepeat,
	}
}

// decode decodes the parameters that a placement uses. The node reports what is wrong
// with the others.
func decode[P any](params json.RawMessage) (p P) {
	_ = json.Unmarshal(params, &p)
	return p
}

// placeSession chooses the node of a new session: a node for its snapshot, or the node that has its
// template and volumes, or else the one that the placement chooses.
func placeSession(
	ctx context.Context, r *Router, who noderpc.Principal, params json.RawMessage,
) (*nodeConn, error) {
	p := decode[protocol.SessionCreate](params)
	if p.Snapshot != "" {
		return snapshotRouter{r}.nodeFor(ctx, who, protocol.SnapshotRef{Snapshot: p.Snapshot},
			cluster.Need{Memory: memoryNeed(p.Limits, protocol.Limits{})})
	}
	var nodes *nodeSet
	mounts := p.Volumes
	need := cluster.Need{Language: p.Language}
	var defaults protocol.Limits
	if p.Template != "" {
		t, owners, err := templateRouter{r}.find(ctx, who, p.Template)
		if err != nil {
			return nil, err
		}
		if !t.Stored {
			nodes = newNodeSet(fmt.Sprintf("the template %.64q", p.Template), owners)
		}
		for _, o := range owners {
			need.Near = append(need.Near, o.of.id)
		}
		defaults = t.Spec.Limits
		mounts = append(slices.Clone(mounts), t.Spec.Volumes...)
	}
	if len(mounts) > 0 {
		var err error
		if nodes, err = r.volumeNodes(ctx, who, nodes, mounts); err != nil {
			return nil, err
		}
	}
	if nodes != nil {
		return nodes.all[0], nil
	}
	if need.Language == "" {
		need.Language = defaultLanguage
	}
	need.Memory = memoryNeed(p.Limits, defaults)
	return r.place(ctx, need)
}

// memoryNeed returns the memory in bytes that a request for a session asks for, or else the defaults
// of its template; 0 if neither does.
func memoryNeed(asked *protocol.Limits, defaults protocol.Limits) int64 {
	if asked != nil && asked.MemoryBytes > 0 {
		return asked.MemoryBytes
	}
	return max(defaults.MemoryBytes, 0)
}

// placeTemplate chooses the node that builds a template: the node that has a template of
// this name, which it replaces, or else the one that the placement chooses.
func placeTemplate(
	ctx context.Context, r *Router, who noderpc.Principal, params json.RawMessage,
) (*nodeConn, error) {
	t, owners, err := templateRouter{r}.find(ctx, who, decode[protocol.TemplateRef](params).Name)
	switch {
	case err == nil && len(owners) > 0:
		return owners[0].of, nil
	case err != nil && !fault.Is(err, fault.NotFound) && !t.Stored:
		return nil, err
	}
	return r.place(ctx, cluster.Need{})
}

// placeVolume chooses the node of a new volume: the node that has a volume of this name,
// which refuses another one, or else the node whose template mounts it, or else a node
// that depends on the name alone. So two gateways that create a volume of one name at
// the same time ask the same node.
func placeVolume(
	ctx context.Context, r *Router, who noderpc.Principal, params json.RawMessage,
) (*nodeConn, error) {
	name := decode[protocol.VolumeCreate](params).Name
	volumes, err := r.volumes(ctx, who)
	if err != nil {
		return nil, err
	}
	if has := volumes[name]; len(has) > 0 {
		return has[0].of, nil
	}
	answers, err := r.ask(ctx, who, protocol.OpTemplateList, struct{}{})
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.err != nil {
			return nil, a.err
		}
		for _, t := range decode[protocol.TemplateList](a.raw).Templates {
			if !t.Stored && slices.ContainsFunc(t.Spec.Volumes,
				func(m protocol.Mount) bool { return m.Name == name }) {
				return a.of, nil
			}
		}
	}
	n, err := r.placer.PlaceByName(ctx, who.Tenant+"\x00"+name)
	if err != nil {
		return nil, err
	}
	return r.conn(n.ID, n.Address)
}

// volumes returns the nodes that have each of a tenant's volumes. It is unavailable when
// a node does not answer.
func (r *Router) volumes(ctx context.Context, who noderpc.Principal) (map[string][]answer, error) {
	answers, err := r.ask(ctx, who, protocol.OpVolumeList, struct{}{})
	if err != nil {
		return nil, err
	}
	return volumesOf(answers), firstError(answers)
}

// volumesOf returns the nodes that have each volume, as far as the nodes answered.
func volumesOf(answers []answer) map[string][]answer {
	all := map[string][]answer{}
	for _, a := range answers {
		if a.err != nil {
			continue
		}
		for _, v := range decode[protocol.VolumeList](a.raw).Volumes {
			all[v.Name] = append(all[v.Name], a)
		}
	}
	return all
}

func firstError(answers []answer) error {
	for _, a := range answers {
		if a.err != nil {
			return a.err
		}
	}
	return nil
}

// nodeSet is the nodes on which a session can be, and the reason for them.
type nodeSet struct {
	all    []*nodeConn
	reason string
}

func newNodeSet(reason string, owners []answer) *nodeSet {
	s := &nodeSet{reason: reason}
	for _, a := range owners {
		s.all = append(s.all, a.of)
	}
	return s
}

// volumeNodes returns those of nodes that have all volumes of mounts; nil stands for all
// nodes. A volume that no node has does not count: the session's node reports it.
func (r *Router) volumeNodes(
	ctx context.Context, who noderpc.Principal, nodes *nodeSet, mounts []protocol.Mount,
) (*nodeSet, error) {
	answers, err := r.ask(ctx, who, protocol.OpVolumeList, struct{}{})
	if err != nil {
		return nil, err
	}
	volumes := volumesOf(answers)
	for _, m := range mounts {
		has := volumes[m.Name]
		if len(has) == 0 {
			if err := firstError(answers); err != nil {
				return nil, err // that node may have it
			}
			if err := volumeAway(ctx, r, who, m.Name); err != nil {
				return nil, err
			}
			continue
		}
		one := newNodeSet(fmt.Sprintf("the volume %.64q", m.Name), has)
		if nodes == nil {
			nodes = one
			continue
		}
		both := slices.DeleteFunc(slices.Clone(nodes.all), func(n *nodeConn) bool {
			return !slices.Contains(one.all, n)
		})
		if len(both) == 0 {
			return nil, &fault.Error{
				Kind: fault.Conflict, Op: "noderouter.place", Field: "volumes",
				Message: fmt.Sprintf("%s and %s are on different nodes of the cluster: "+
					"no session can have both", nodes.reason, one.reason),
			}
		}
		nodes = &nodeSet{all: both, reason: nodes.reason}
	}
	return nodes, nil
}
