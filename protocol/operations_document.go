package protocol

import "github.com/sandgate/sandgate/protocol/document"

// The operations for documents that several clients edit together. Package document has their types.
const (
	// OpDocumentJoin opens a document of a session. document.Join with ch is answered by
	// document.Joined. Events follow until ch is detached.
	OpDocumentJoin = "document.join"
	// OpDocumentUpdate adds an update, or changes what the other members see of this one.
	OpDocumentUpdate = "document.update"
	// EventDocument reports updates and members of a document. Params is document.News.
	EventDocument = "document"
)

// documentOperations are for documents that several clients edit together. They do not need the
// sandbox, so they do not resume a session.
func documentOperations() []Operation {
	return []Operation{
		{
			Name: OpDocumentJoin, Summary: "Open a document that several clients edit together",
			Params: document.Join{}, Result: document.Joined{}, Scope: ScopeRead,
			Channel: ChoosesChannel, Order: Inline, Target: SessionNode, OneSession: true,
			Unaudited: true,
		},
		{
			Name:    OpDocumentUpdate,
			Summary: "Pass an update of a document, or a member's presence, to its other members",
			Params:  document.Update{}, Result: document.Updated{}, Scope: ScopeWrite,
			Order: Inline, Target: SessionNode, Effects: Writes, Unaudited: true,
		},
	}
}
