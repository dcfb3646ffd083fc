package run

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// decode reads the body of a request: JSON, or a form whose part request is the JSON and whose parts
// file are files. The gateway bounds the body.
func decode(r *http.Request) (p Request, err error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return p, surface.DecodeJSON(r.Body, &p)
	}
	const op = "run.form"
	var files []protocol.RunFile
	var found bool
	form := multipart.NewReader(r.Body, params["boundary"])
	for {
		part, err := form.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return p, surface.FormError(op, err)
		}
		switch part.FormName() {
		case "request":
			if found {
				return p, fault.Invalid(op, "request", "the form has two parts request")
			}
			found = true
			if err := surface.DecodeJSON(part, &p); err != nil {
				return p, err
			}
		case "file":
			if len(files) == maxFiles {
				return p, fault.Invalid(op, "file", "at most %d files", maxFiles)
			}
			// FileName would drop the folders of the path.
			_, at, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			if err != nil || at["filename"] == "" {
				return p, fault.Invalid(op, "file", "a part file has its path as filename")
			}
			content, err := io.ReadAll(part)
			if err != nil {
				return p, surface.FormError(op, err)
			}
			files = append(files, protocol.RunFile{Path: at["filename"], Content: string(content)})
		default:
			return p, fault.Invalid(op, part.FormName(), "a form has the parts request and file")
		}
	}
	if !found {
		return p, fault.Invalid(op, "request", "the form has no part request")
	}
	p.Files = append(p.Files, files...)
	return p, nil
}
