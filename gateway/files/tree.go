package files

import (
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// list answers with one page of a folder.
func (s *Surface) list(w http.ResponseWriter, r *http.Request) error {
	ref, err := folderOf(r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	p := protocol.FileList{FileRef: ref, After: query.Get("after")}
	if limit := query.Get("limit"); limit != "" {
		if p.Limit, err = strconv.Atoi(limit); err != nil || p.Limit < 1 {
			return fault.Invalid("files.list", "limit", "a limit is a number above 0")
		}
	}
	if depth := query.Get("depth"); depth != "" {
		if p.Depth, err = strconv.Atoi(depth); err != nil || p.Depth < 1 {
			return fault.Invalid("files.list", "depth", "a depth is a number above 0")
		}
	}
	return s.call(w, r, s.cfg.Call, http.StatusOK, protocol.OpFileList, p,
		new(protocol.FileListing))
}

// Change is the body of POST for a path.
type Change struct {
	// Op is mkdir, move or copy.
	Op string `json:"op"`
	// To and Overwrite belong to move and copy.
	To        string `json:"to,omitempty"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

func (s *Surface) change(w http.ResponseWriter, r *http.Request) error {
	var p Change
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	return s.changeTo(w, r, p)
}

// changeTo changes the file or folder of a request.
func (s *Surface) changeTo(w http.ResponseWriter, r *http.Request, p Change) error {
	const op = "files.change"
	ref, err := folderOf(r)
	if err != nil {
		return err
	}
	switch p.Op {
	case "mkdir":
		return s.call(w, r, s.cfg.Call, http.StatusCreated, protocol.OpFileMkdir, ref,
			new(protocol.File))
	case "move", "copy":
		if err := surface.CheckPath("files.path", p.To); err != nil || p.To == "" {
			return fault.Invalid(op, "to", "the operation needs a target path without ..")
		}
		name := map[string]string{"move": protocol.OpFileMove, "copy": protocol.OpFileCopy}[p.Op]
		params := protocol.FileMove{FileRef: ref, To: p.To, Overwrite: p.Overwrite}
		return s.call(w, r, changeLimit, http.StatusOK, name, params, new(protocol.File))
	}
	return fault.Invalid(op, "op", "the operation is mkdir, move or copy")
}

func (s *Surface) remove(w http.ResponseWriter, r *http.Request) error {
	ref, err := folderOf(r)
	if err != nil {
		return err
	}
	p := protocol.FileRemove{FileRef: ref}
	if v := r.URL.Query().Get("recursive"); v != "" {
		if p.Recursive, err = strconv.ParseBool(v); err != nil {
			return fault.Invalid("files.remove", "recursive", "it is true or false")
		}
	}
	return s.call(w, r, changeLimit, http.StatusOK, protocol.OpFileRemove, p, nil)
}
