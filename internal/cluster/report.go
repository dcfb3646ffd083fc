package cluster

import (
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Report adds the values of a heartbeat to the description of a node for operators.
func (n NodeInfo) Report(info *nodes.NodeInfo) {
	info.Address, info.Zone = n.Address, n.Zone
	info.Sessions, info.Places, info.Hibernated = n.Sessions, n.Most, n.Hibernated
	info.Memory, info.MemoryUsed = n.Memory, n.MemoryUsed
	info.Processors = n.Processors
	info.Disk, info.DiskFree = n.Disk, n.DiskFree
}

// NoNode is the error for the name of a node that does not exist.
func NoNode(op string) error {
	e := fault.New(fault.NotFound, op, "there is no such node")
	e.Field = "node"
	return e
}
