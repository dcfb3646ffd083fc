package protocol

import (
	"net/http"

	"github.com/sandgate/sandgate/protocol/notebook"
)

// The operations on stored notebooks. Package notebook has their types.
const (
	OpNotebookList     = "notebook.list"
	OpNotebookVersions = "notebook.versions"
	OpNotebookRead     = "notebook.read"
	OpNotebookName     = "notebook.name"
	OpNotebookDelete   = "notebook.delete"
)

// notebookOperations are on notebooks that nodes store outside of sandboxes. They need no session.
func notebookOperations() []Operation {
	const notebooks, one = "/v1/notebooks", "/v1/notebooks/{notebook}"
	const version = one + "/versions/{version}"
	return []Operation{
		{
			Name: OpNotebookList, ID: "listNotebooks",
			Summary: "List the tenant's stored notebooks, the one that was saved last first",
			Params:  notebook.Query{}, Result: notebook.List{}, Scope: ScopeRead,
			Target: AllNodes, Unaudited: true, REST: get(notebooks),
		},
		{
			Name: OpNotebookVersions, ID: "listNotebookVersions",
			Summary: "List the versions of a stored notebook, newest first",
			Params:  notebook.Ref{}, Result: notebook.Versions{}, Scope: ScopeRead,
			Target: AllNodes, Unaudited: true, REST: get(one + "/versions"),
		},
		{
			Name: OpNotebookRead, ID: "readNotebook",
			Summary: "Read a part of the text of a notebook's version",
			Params:  notebook.Read{}, Result: notebook.Part{}, Scope: ScopeRead,
			Target: ResourceNode, REST: get(version),
		},
		{
			Name: OpNotebookName, ID: "nameNotebookVersion",
			Summary: "Give a notebook's version a name, with which it is kept",
			Params:  notebook.Naming{}, Result: notebook.Version{}, Scope: ScopeWrite,
			Target: ResourceNode, Effects: Writes,
			REST: []Route{{Method: http.MethodPatch, Path: version, Body: RequiredBody}},
		},
		{
			Name: OpNotebookDelete, ID: "deleteNotebook",
			Summary: "Delete a stored notebook with all versions; the file in the session stays",
			Params:  notebook.Ref{}, Scope: ScopeWrite,
			Target: ResourceNode, Effects: Writes, REST: del(one),
		},
	}
}
