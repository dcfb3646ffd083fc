package surface

import (
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
)

// Download is a file that a client stores.
type Download struct {
	// Name is the path of the file; its last part is the name that the client suggests.
	Name string
	// Type is the content type.
	Type string
	// Size is the length of the content, in bytes.
	Size int64
}

// Send sends the file as an attachment. It cuts the response if the content ends early.
func (d Download) Send(w http.ResponseWriter, r *http.Request, content io.Reader) {
	h := w.Header()
	h.Set("Content-Type", d.Type)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.FormatInt(d.Size, 10))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment",
		map[string]string{"filename": path.Base(d.Name)}))
	SendBody(w, r, content)
}

// SendBody sends a body whose header is complete. It cuts the response if the content ends early,
// because a client must not take a part for the file.
func SendBody(w http.ResponseWriter, r *http.Request, content io.Reader) {
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, content); err != nil {
		CallOf(r).Err = err
		panic(http.ErrAbortHandler)
	}
}
