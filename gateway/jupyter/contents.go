package jupyter

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/jupyter/contents"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/mime"
)

// The server-wide server has the files of the home session, and a folder for each of its other
// sessions: see ADR 132.

// area is the part of a server's files that a request is about.
type area struct {
	*contents.Files
	// name is the path below the home folder of the session.
	name    string
	release func()
}

// close gives back the place of a large content.
func (a *area) close() {
	if a.release != nil {
		a.release()
	}
}

// open returns the files of the session that a path is in. With create, the home session is created
// if there is none. Errors: NotFound, also for hidden files.
func (s contentsAPI) open(r *http.Request, name string, create bool) (*area, error) {
	const op = "jupyter.contents"
	p := placed(r)
	name = strings.Trim(name, "/")
	if !contents.Valid(name) {
		return nil, fault.New(fault.NotFound, op, "there is no such file")
	}
	session, inner := p.sessionOf(name)
	prefix := ""
	var err error
	switch {
	case session == "" && create:
		session, err = s.ensureHome(r)
	case session == "":
		session, err = s.home(r)
	case p.session == "":
		prefix = session + "/"
	}
	if err == nil && session == "" {
		err = fault.New(fault.NotFound, op, "there is no such file")
	}
	if err != nil {
		return nil, err
	}
	a := &area{name: inner}
	a.Files = &contents.Files{
		Node: s.cfg.Node, Who: p.who, Session: session, Prefix: prefix, Timeout: s.cfg.Call,
		Large: func() error {
			if a.release != nil {
				return nil
			}
			var err error
			if a.release, err = s.large.Reserve(op, p.who.Tenant); err != nil {
				s.cfg.Full()
			}
			return err
		},
	}
	return a, nil
}

// checkpointPath splits a path below /api/contents that is one of checkpoints.
func checkpointPath(name string) (file, id string, ok bool) {
	if file, ok = strings.CutSuffix(strings.Trim(name, "/"), "/checkpoints"); ok {
		return file, "", true
	}
	folder, id := path.Split(strings.Trim(name, "/"))
	file, ok = strings.CutSuffix(folder, "/checkpoints/")
	return file, id, ok
}

func (s contentsAPI) getContents(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("path")
	if file, id, ok := checkpointPath(name); ok && id == "" {
		return s.listCheckpoints(w, r, file)
	}
	q := r.URL.Query()
	want := contents.Want{
		Type: q.Get("type"), Format: q.Get("format"),
		Content: q.Get("content") != "0", Hash: q.Get("hash") == "1",
	}
	if strings.Trim(name, "/") == "" && placed(r).session == "" {
		m, err := s.root(r, want)
		if err != nil {
			return err
		}
		return surface.WriteJSON(w, http.StatusOK, m)
	}
	a, err := s.open(r, name, false)
	if err != nil {
		return err
	}
	defer a.close()
	m, err := a.Get(r.Context(), a.name, want)
	if err != nil {
		return err
	}
	s.fileEvent(r, a, "get", a.name, "")
	return surface.WriteJSON(w, http.StatusOK, m)
}

// root returns the top folder of the server-wide server.
func (s contentsAPI) root(r *http.Request, want contents.Want) (contents.Model, error) {
	m := contents.Model{
		Type: contents.TypeDirectory, Writable: true,
		Created: stamp(s.started), LastModified: stamp(s.started),
	}
	if want.Type != "" && want.Type != contents.TypeDirectory {
		return m, fault.Invalid("jupyter.contents", "type", "this is a folder")
	}
	entries := []contents.Model{}
	a, err := s.open(r, "", false)
	switch {
	case err == nil:
		if m, err = a.Get(r.Context(), "", want); err != nil {
			return m, err
		}
		s.fileEvent(r, a, "get", "", "")
		if all, ok := m.Content.([]contents.Model); ok {
			entries = all
		}
	case !fault.Is(err, fault.NotFound):
		return m, err
	}
	if !want.Content {
		return m, nil
	}
	sessions, err := s.sessions(r)
	if err != nil {
		return m, err
	}
	for _, v := range sessions {
		if v.State == "lost" || v.Name == homeName(placed(r).who) {
			continue
		}
		entries = append(entries, contents.Model{
			Name: v.ID, Path: v.ID, Type: contents.TypeDirectory, Writable: true,
			Created: stampMS(v.ActiveMS), LastModified: stampMS(v.ActiveMS),
		})
	}
	format := "json"
	m.Content, m.Format = entries, &format
	return m, nil
}

// openToChange opens the files for a request with a body, and reads the body into v.
func (s contentsAPI) openToChange(r *http.Request, name string, create bool, v any,
) (*area, error) {
	a, err := s.open(r, name, create)
	if err != nil {
		return nil, err
	}
	if r.ContentLength < 0 || r.ContentLength > contents.LargeContent {
		if err := a.Large(); err != nil {
			return nil, err
		}
	}
	if err := decode(r, v); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// answer sends the model of a file.
func (s contentsAPI) answer(w http.ResponseWriter, r *http.Request, created bool,
	m contents.Model,
) error {
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		w.Header().Set("Location", placed(r).base+"/api/contents/"+
			(&url.URL{Path: m.Path}).EscapedPath())
	}
	return surface.WriteJSON(w, status, m)
}

func (s contentsAPI) putContents(w http.ResponseWriter, r *http.Request) error {
	var p struct {
		contents.Saved
		CopyFrom string `json:"copy_from"`
	}
	a, err := s.openToChange(r, r.PathValue("path"), true, &p)
	if err != nil {
		return err
	}
	defer a.close()
	if p.CopyFrom != "" {
		return fault.Invalid("jupyter.contents", "copy_from", "a copy is made by POST")
	}
	m, created, err := a.SaveModel(r.Context(), a.name, p.Saved)
	if err != nil {
		return err
	}
	s.fileEvent(r, a, "save", a.name, "")
	return s.answer(w, r, created, m)
}

// createContents makes a new file or a copy in a folder, or a checkpoint.
func (s contentsAPI) createContents(w http.ResponseWriter, r *http.Request) error {
	if file, id, ok := checkpointPath(r.PathValue("path")); ok {
		return s.changeCheckpoint(w, r, file, id)
	}
	var p struct {
		Type     string `json:"type"`
		Ext      string `json:"ext"`
		CopyFrom string `json:"copy_from"`
	}
	a, err := s.openToChange(r, r.PathValue("path"), true, &p)
	if err != nil {
		return err
	}
	defer a.close()
	var m contents.Model
	action, from := "save", ""
	if p.CopyFrom == "" {
		m, err = a.Create(r.Context(), a.name, p.Type, p.Ext)
	} else {
		action = "copy"
		if from, err = s.sameSession(r, a, p.CopyFrom, "copy_from"); err == nil {
			m, err = a.Copy(r.Context(), from, a.name)
		}
	}
	if err != nil {
		return err
	}
	s.fileEvent(r, a, action, a.inner(m), from)
	return s.answer(w, r, true, m)
}

// sameSession returns a second path of a request, which has to be in the session of the first.
func (s contentsAPI) sameSession(r *http.Request, a *area, name, field string) (string, error) {
	b, err := s.open(r, name, false)
	if err != nil {
		return "", err
	}
	if b.Session != a.Session {
		return "", fault.Invalid("jupyter.contents", field,
			"the file is in another session: download it and upload it here")
	}
	return b.name, nil
}

func (s contentsAPI) renameContents(w http.ResponseWriter, r *http.Request) error {
	var p struct {
		Path string `json:"path"`
	}
	a, err := s.openToChange(r, r.PathValue("path"), false, &p)
	if err != nil {
		return err
	}
	defer a.close()
	if strings.Trim(p.Path, "/") == "" {
		return fault.Invalid("jupyter.contents", "path", "the new path is missing")
	}
	to, err := s.sameSession(r, a, p.Path, "path")
	if err != nil {
		return err
	}
	m, err := a.Rename(r.Context(), a.name, to)
	if err != nil {
		return err
	}
	s.fileEvent(r, a, "rename", a.inner(m), a.name)
	return s.answer(w, r, false, m)
}

func (s contentsAPI) deleteContents(w http.ResponseWriter, r *http.Request) error {
	name, id, isCheckpoint := checkpointPath(r.PathValue("path"))
	if !isCheckpoint {
		name = r.PathValue("path")
	}
	a, err := s.open(r, name, false)
	if err != nil {
		return err
	}
	switch {
	case !isCheckpoint:
		if err = a.Delete(r.Context(), a.name); err == nil {
			s.fileEvent(r, a, "delete", a.name, "")
		}
	case id == contents.CheckpointID:
		err = a.DeleteCheckpoint(r.Context(), a.name)
	default:
		err = noCheckpoint()
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func noCheckpoint() error {
	return fault.New(fault.NotFound, "jupyter.checkpoint", "there is no such checkpoint")
}

func (s contentsAPI) listCheckpoints(w http.ResponseWriter, r *http.Request, file string) error {
	a, err := s.open(r, file, false)
	if err != nil {
		return err
	}
	all, err := a.Checkpoints(r.Context(), a.name)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

// changeCheckpoint makes a checkpoint, or restores the one with an id.
func (s contentsAPI) changeCheckpoint(w http.ResponseWriter, r *http.Request, file, id string,
) error {
	a, err := s.open(r, file, false)
	if err != nil {
		return err
	}
	switch id {
	case "":
		c, err := a.SaveCheckpoint(r.Context(), a.name)
		if err != nil {
			return err
		}
		return surface.WriteJSON(w, http.StatusCreated, c)
	case contents.CheckpointID:
		if err := a.RestoreCheckpoint(r.Context(), a.name); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return noCheckpoint()
}

// file sends a file or a part of it. A browser shows it without any right of a page.
func (s contentsAPI) file(w http.ResponseWriter, r *http.Request) error {
	a, err := s.open(r, r.PathValue("path"), false)
	if err != nil {
		return err
	}
	st, err := a.Stat(r.Context(), a.name)
	if err != nil {
		return err
	}
	if st.Type != "file" {
		return fault.New(fault.NotFound, "jupyter.file", "this is not a file")
	}
	setFileHeaders(w.Header(), r, a.name, st)
	if r.Header.Get("If-None-Match") == `"`+st.ETag+`"` {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Length", strconv.FormatInt(st.Size, 10))
		w.WriteHeader(http.StatusOK)
		return nil
	}
	return s.sendFile(w, r, a)
}

func setFileHeaders(h http.Header, r *http.Request, name string, st protocol.File) {
	kind := mime.TypeOf(name)
	if strings.HasPrefix(kind, "text/") {
		kind += "; charset=utf-8"
	}
	h.Set("Content-Type", kind)
	if r.URL.Query().Has("download") {
		h.Set("Content-Disposition",
			"attachment; filename*=UTF-8''"+url.PathEscape(path.Base(name)))
	}
	h.Set("Content-Security-Policy",
		"sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("ETag", `"`+st.ETag+`"`)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Last-Modified", time.UnixMilli(st.ModifiedMS).UTC().Format(http.TimeFormat))
}

func (s contentsAPI) sendFile(w http.ResponseWriter, r *http.Request, a *area) error {
	p := protocol.FileRead{FileRef: protocol.FileRef{Path: a.name}}
	ranged := fileclient.ParseRange(r.Header.Get("Range"), &p)
	if cond := r.Header.Get("If-Range"); ranged && cond != "" {
		if p.IfRange = fileclient.ParseETag(cond); p.IfRange == "" {
			p.Offset, p.Length, ranged = 0, 0, false // a date or a weak ETag never matches
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var f protocol.FilePart
	body, err := a.Open(ctx, p, &f)
	if err != nil {
		return err
	}
	defer body.Close()
	h := w.Header()
	h.Set("ETag", `"`+f.ETag+`"`)
	status := http.StatusOK
	switch {
	case ranged && p.Offset != 0 && f.Offset >= f.Size:
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", f.Size))
		return surface.WriteJSON(w, http.StatusRequestedRangeNotSatisfiable, errorBody{
			Message: fmt.Sprintf("the file has %d bytes", f.Size), Reason: "invalid_argument",
		})
	case ranged && (p.IfRange == "" || p.IfRange == f.ETag) && f.Length > 0:
		status = http.StatusPartialContent
		h.Set("Content-Range",
			fmt.Sprintf("bytes %d-%d/%d", f.Offset, f.Offset+f.Length-1, f.Size))
	}
	if f.Size > 0 { // otherwise it is not known before the file is read
		h.Set("Content-Length", strconv.FormatInt(f.Length, 10))
	}
	w.WriteHeader(status)
	if _, err := io.Copy(w, body); err != nil && r.Context().Err() == nil {
		surface.CallOf(r).Err = err
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	return nil
}
