package gateway

import (
	"net/url"
	"path"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// fileLimit is how long a folder may take to be copied or removed; it is the
// node's as well.
const fileLimit = 5 * time.Minute

// onFolder asks the node about the path of the request.
func (q *request) onFolder(op string, result any) error {
	ref, err := q.folder()
	if err != nil {
		return err
	}
	return q.call(fiber.StatusOK, op, ref, result)
}

// listFolder answers with one page of a folder.
func (a *fileAPI) listFolder(q *request) error {
	ref, err := q.folder()
	if err != nil {
		return err
	}
	p := protocol.FileList{FileRef: ref, After: q.Query("after")}
	if limit := q.Query("limit"); limit != "" {
		if p.Limit, err = strconv.Atoi(limit); err != nil || p.Limit < 1 {
			return fault.Invalid("gateway.file", "limit", "a limit is a number above 0")
		}
	}
	return q.call(fiber.StatusOK, protocol.OpFileList, p, new(protocol.FileListing))
}

// getTree sends a folder as an archive, which is made as it is sent.
func (a *fileAPI) getTree(q *request, form string) error {
	ref, err := q.folder()
	if err != nil {
		return err
	}
	var f protocol.File
	body, err := a.openStream(q, protocol.OpTreeRead, protocol.TreeRead{FileRef: ref, Archive: form}, &f)
	if err != nil {
		return err
	}
	name := path.Base(f.Path)
	if name == "/" {
		name = "root"
	}
	fileHeaders(q, f)
	h := &q.Response().Header
	h.Del(fiber.HeaderETag)
	h.Del(fiber.HeaderAcceptRanges)
	h.Del("X-File-Type")
	h.SetContentType(map[string]string{"tar": "application/x-tar", "zip": "application/zip"}[form])
	h.Set(fiber.HeaderContentDisposition, "attachment; filename*=UTF-8''"+url.PathEscape(name+"."+form))
	body.send(q, -1)
	return nil
}

// putTree unpacks the body, a tar archive, into a folder.
func (a *fileAPI) putTree(q *request, form string) error {
	ref, err := q.folder()
	if err != nil {
		return err
	}
	if form != "tar" {
		return fault.Invalid("gateway.file", "archive", "the archive that can be unpacked is tar")
	}
	var t protocol.Tree
	if err := a.upload(q.base(), q.who, protocol.OpTreeWrite, ref, q.body, &t); err != nil {
		return err
	}
	return q.json(fiber.StatusOK, t)
}

// fileChange is what POST does to a path.
type fileChange struct {
	// Op is mkdir, move or copy.
	Op        string `json:"op"`
	To        string `json:"to,omitempty"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

func (a *fileAPI) changeFile(q *request) error {
	const op = "gateway.file"
	ref, err := q.folder()
	if err != nil {
		return err
	}
	var p fileChange
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	switch p.Op {
	case "mkdir":
		return q.call(fiber.StatusCreated, protocol.OpFileMkdir, ref, new(protocol.File))
	case "move", "copy":
		if err := checkPath(p.To); err != nil || p.To == "" {
			return fault.Invalid(op, "to", "it takes a path to go to, without .. in it")
		}
		name := map[string]string{"move": protocol.OpFileMove, "copy": protocol.OpFileCopy}[p.Op]
		return q.callFor(fileLimit, fiber.StatusOK, name, protocol.FileMove{FileRef: ref, To: p.To, Overwrite: p.Overwrite}, new(protocol.File))
	}
	return fault.Invalid(op, "op", "it is mkdir, move or copy")
}

func (a *fileAPI) removeFile(q *request) error {
	ref, err := q.folder()
	if err != nil {
		return err
	}
	p := protocol.FileRemove{FileRef: ref}
	if v := q.Query("recursive"); v != "" {
		if p.Recursive, err = strconv.ParseBool(v); err != nil {
			return fault.Invalid("gateway.file", "recursive", "it is true or false")
		}
	}
	return q.callFor(fileLimit, fiber.StatusOK, protocol.OpFileRemove, p, nil)
}
