package client

import (
	"context"
	"strings"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/notebook"
)

// Notebooks are the stored notebooks: copies that the server keeps of each saved *.ipynb file, in
// versions. They outlive the sandbox.
type Notebooks struct{ client *Client }

// List returns the stored notebooks, the one that was saved last first: those of a session or, with
// an empty id, of the tenant.
func (n *Notebooks) List(ctx context.Context, session string) ([]notebook.Notebook, error) {
	var list notebook.List
	err := n.client.Call(ctx, protocol.OpNotebookList, notebook.Query{Session: session}, &list)
	return list.Notebooks, err
}

// Versions returns the versions of a notebook, newest first.
func (n *Notebooks) Versions(ctx context.Context, id string) ([]notebook.Version, error) {
	var list notebook.Versions
	err := n.client.Call(ctx, protocol.OpNotebookVersions, notebook.Ref{Notebook: id}, &list)
	return list.Versions, err
}

// Read returns the text of a version, the content of the file. An empty version means the newest.
//
// Errors: NotFound, and Conflict if a save replaced the version meanwhile.
func (n *Notebooks) Read(ctx context.Context, id, version string) (string, error) {
	if version == "" {
		all, err := n.Versions(ctx, id)
		if err != nil || len(all) == 0 { // a notebook has at least one
			return "", err
		}
		version = all[0].ID
	}
	var text strings.Builder
	for p := (notebook.Read{Notebook: id, Version: version}); ; {
		var part notebook.Part
		if err := n.client.Call(ctx, protocol.OpNotebookRead, p, &part); err != nil {
			return "", err
		}
		text.WriteString(part.Text)
		if p.Offset = part.Next; p.Offset == 0 {
			return text.String(), nil
		}
	}
}

// Name gives a version a name, with which it is kept. An empty name removes it. With Closed, the
// next save begins another version.
func (n *Notebooks) Name(ctx context.Context, p notebook.Naming) (notebook.Version, error) {
	var version notebook.Version
	err := n.client.Call(ctx, protocol.OpNotebookName, p, &version)
	return version, err
}

// Delete deletes a stored notebook with all versions. The file in the session stays.
func (n *Notebooks) Delete(ctx context.Context, id string) error {
	return n.client.Call(ctx, protocol.OpNotebookDelete, notebook.Ref{Notebook: id}, nil)
}
