package protocol

import "github.com/sandgate/sandgate/protocol/nodes"

// The operations between gateways and nodes of a cluster. Clients cannot use them.
const (
	OpAdopt           = "session.adopt"
	OpParked          = "session.parked"
	OpSessionOwner    = "session.owner"
	OpDrain           = "node.drain"
	OpSnapshotStored  = "snapshot.stored"
	OpSnapshotDiscard = "snapshot.discard"
	OpTemplateStored  = "template.stored"
	OpUsageStored     = "usage.stored"
	OpAuditStored     = "audit.stored"
)

// FieldAbsent is the field of the NotFound of session.adopt for a session that the blob store does
// not have. For a session of another tenant the field is "session".
const FieldAbsent = "absent"

// StoredRecords asks for the records in the blob store that Usage or Audit selects, except those in
// some folders.
type StoredRecords struct {
	Usage  UsageQuery `json:"usage,omitzero"`
	Audit  AuditQuery `json:"audit,omitzero"`
	Except []string   `json:"except"`
}

func findStored(op, kind string, params, result any) Operation {
	return Operation{
		Name: op, Summary: "Find " + kind + " in the blob store", Params: params, Result: result,
		Scope: ScopeNode, Transport: Internal, Target: DirectNode, Unaudited: true,
	}
}

// moveOperations are only for gateways and nodes.
func moveOperations() []Operation {
	return []Operation{
		{
			Name: OpAdopt, Summary: "Take over a parked session from the blob store",
			Params: SessionRef{}, Result: Session{}, Scope: ScopeNode, Transport: Internal,
			Target: DirectNode, Effects: Writes, OneSession: true, Limit: MoveLimit,
		},
		{
			Name: OpParked, Summary: "List parked sessions",
			Params: SessionQuery{}, Result: SessionList{}, Scope: ScopeNode, Transport: Internal,
			Target: DirectNode, OneSession: true, Unaudited: true,
		},
		findStored(OpSnapshotStored, "snapshots", SnapshotRef{}, SnapshotList{}),
		findStored(OpTemplateStored, "templates", TemplateRef{}, TemplateList{}),
		findStored(OpUsageStored, "records of use", StoredRecords{}, UsageReport{}),
		findStored(OpAuditStored, "entries of the audit log", StoredRecords{}, AuditPage{}),
		{
			Name: OpSnapshotDiscard, Summary: "Delete a snapshot that no node has", Effects: Writes,
			Params: SnapshotRef{}, Scope: ScopeNode, Transport: Internal, Target: DirectNode,
		},
		// It neither resumes the session nor counts as its work.
		{
			Name:    OpSessionOwner,
			Summary: "Report whose session it is, also for a while after its end",
			Params:  SessionRef{}, Result: nodes.SessionOwner{}, Scope: ScopeNode,
			Transport: Internal, Target: SessionNode, Unaudited: true,
		},
		// The reply comes when no movable session is left on the node.
		{
			Name: OpDrain, Summary: "Move all sessions off a node",
			Result: nodes.Moved{}, Scope: ScopeNode, Transport: Internal,
			Target: DirectNode, Effects: Administers, Limit: MoveLimit,
		},
	}
}
