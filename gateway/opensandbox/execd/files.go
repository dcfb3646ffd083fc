package execd

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/sessionfile"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// fileInfo describes a file.
type fileInfo struct {
	Path     string    `json:"path"`
	Type     string    `json:"type"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified_at"`
	Created  time.Time `json:"created_at"`
	Owner    string    `json:"owner"`
	Group    string    `json:"group"`
	// Mode has the digits of the octal mode as a decimal number: 644.
	Mode int `json:"mode"`
}

func infoOf(f protocol.File) fileInfo {
	mode, _ := strconv.Atoi(strconv.FormatUint(uint64(f.Mode&0o7777), 8))
	kind := f.Type
	if kind == "folder" {
		kind = "directory"
	}
	at := time.UnixMilli(f.ModifiedMS).UTC()
	return fileInfo{f.Path, kind, f.Size, at, at, f.Owner, f.Group, mode}
}

// permission is the mode of a file in a request.
type permission struct {
	Mode  int    `json:"mode"`
	Owner string `json:"owner"`
	Group string `json:"group"`
}

// octal returns a mode whose octal digits are a decimal number; usual for 0.
func (p permission) octal(usual uint32) (uint32, error) {
	if p.Mode == 0 {
		return usual, nil
	}
	mode, err := strconv.ParseUint(strconv.Itoa(p.Mode), 8, 12)
	if err != nil {
		return 0, fault.Invalid("execd.files", "mode", "%d is not a mode such as 644", p.Mode)
	}
	return uint32(mode), nil
}

// paths returns the paths of the query.
func paths(r *http.Request) ([]string, error) {
	all := r.URL.Query()["path"]
	if len(all) == 0 || len(all) > maxPaths {
		return nil, fault.Invalid("execd.files", "path", "a request has 1 to %d paths", maxPaths)
	}
	for _, p := range all {
		if err := surface.CheckPath("execd.files", p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func ref(r *http.Request, p string) protocol.FileRef {
	return protocol.FileRef{Session: sessionOf(r), Path: p}
}

func (h handler) info(w http.ResponseWriter, r *http.Request) error {
	all, err := paths(r)
	if err != nil {
		return err
	}
	found := map[string]fileInfo{}
	for _, p := range all {
		var f protocol.File
		if err := h.call(r, protocol.OpFileStat, protocol.FileStat{FileRef: ref(r, p)},
			&f); err != nil {
			return err
		}
		f.Path = p
		found[p] = infoOf(f)
	}
	return surface.WriteJSON(w, http.StatusOK, found)
}

func (h handler) removeFiles(w http.ResponseWriter, r *http.Request) error {
	return h.removeAll(w, r, false)
}

func (h handler) removeFolders(w http.ResponseWriter, r *http.Request) error {
	return h.removeAll(w, r, true)
}

func (h handler) removeAll(w http.ResponseWriter, r *http.Request, recursive bool) error {
	all, err := paths(r)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := h.call(r, protocol.OpFileRemove, protocol.FileRemove{
			FileRef: ref(r, p), Recursive: recursive,
		}, nil); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (h handler) move(w http.ResponseWriter, r *http.Request) error {
	var all []struct{ Src, Dest string }
	if err := decode(r, &all); err != nil {
		return err
	}
	if len(all) > maxPaths {
		return fault.Invalid("execd.files", "src", "a request has at most %d files", maxPaths)
	}
	for _, m := range all {
		if err := h.call(r, protocol.OpFileMove, protocol.FileMove{
			FileRef: ref(r, m.Src), To: m.Dest, Overwrite: true,
		}, nil); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// permissions sets the modes of files. The user of a sandbox cannot give files to others.
func (h handler) permissions(w http.ResponseWriter, r *http.Request) error {
	all := map[string]permission{}
	if err := decode(r, &all); err != nil {
		return err
	}
	if len(all) > maxPaths {
		return fault.Invalid("execd.files", "path", "a request has at most %d files", maxPaths)
	}
	for p, x := range all {
		mode, err := x.octal(0o755)
		if err != nil {
			return err
		}
		if err := h.changeMode(r, p, mode); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// changeMode sets the mode of a file by the command chmod.
func (h handler) changeMode(r *http.Request, p string, mode uint32) error {
	no := false
	c, err := h.cfg.Commands.Start(r.Context(), r, protocol.ExecRequest{
		Session: sessionOf(r), Files: &no, TimeoutMS: h.cfg.Call.Milliseconds(),
		Argv: []string{"chmod", strconv.FormatUint(uint64(mode), 8), "--", p},
	})
	if err != nil {
		return err
	}
	defer c.Abandon()
	for {
		select {
		case batch, ok := <-c.Events():
			if !ok {
				return nil
			}
			for _, e := range batch {
				if e.Type == "done" && e.Status != "ok" {
					return fault.Invalid("execd.files", "path", "the mode of %.200q cannot be set", p)
				}
			}
		case <-r.Context().Done():
			return surface.ErrGone()
		}
	}
}

// walk calls f with the entries below a folder until it returns false.
func (h handler) walk(r *http.Request, folder string, depth int, f func(protocol.File) bool) error {
	q := protocol.FileList{FileRef: ref(r, folder), Depth: depth, Limit: maxFound}
	for {
		var page protocol.FileListing
		if err := h.call(r, protocol.OpFileList, q, &page); err != nil {
			return err
		}
		for _, e := range page.Entries {
			if !f(e) {
				return nil
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// search answers with the files below a folder whose name matches a pattern.
func (h handler) search(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	pattern := strings.TrimPrefix(query.Get("pattern"), "**/")
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return fault.Invalid("execd.files", "pattern", "it is a pattern such as *.txt")
	}
	found, visited := []fileInfo{}, 0
	err := h.walk(r, query.Get("path"), 64, func(f protocol.File) bool {
		visited++
		if ok, _ := path.Match(pattern, path.Base(f.Path)); ok && f.Type == "file" {
			found = append(found, infoOf(f))
		}
		return len(found) < maxFound && visited < 50*maxFound
	})
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, found)
}

func (h handler) listFolder(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	depth, err := strconv.Atoi(query.Get("depth"))
	if err != nil || depth < 1 || depth > 64 {
		depth = 1
	}
	found := []fileInfo{}
	err = h.walk(r, query.Get("path"), depth, func(f protocol.File) bool {
		found = append(found, infoOf(f))
		return len(found) < maxFound
	})
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, found)
}

func (h handler) makeFolders(w http.ResponseWriter, r *http.Request) error {
	all := map[string]permission{}
	if err := decode(r, &all); err != nil {
		return err
	}
	if len(all) > maxPaths {
		return fault.Invalid("execd.files", "path", "a request has at most %d folders", maxPaths)
	}
	for p, x := range all {
		mode, err := x.octal(0o755)
		if err != nil {
			return err
		}
		err = h.call(r, protocol.OpFileMkdir, ref(r, p), nil)
		if err != nil && !fault.Is(err, fault.Conflict) { // it is there
			return err
		}
		if mode != 0o755 {
			if err := h.changeMode(r, p, mode); err != nil {
				return err
			}
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// replace replaces text in files, each time that it occurs.
func (h handler) replace(w http.ResponseWriter, r *http.Request) error {
	all := map[string]struct{ Old, New string }{}
	if err := decode(r, &all); err != nil {
		return err
	}
	if len(all) > maxPaths {
		return fault.Invalid("execd.files", "path", "a request has at most %d files", maxPaths)
	}
	counts := map[string]map[string]int{}
	for p, x := range all {
		if x.Old == "" {
			return fault.Invalid("execd.files", "old", "the text to replace is empty")
		}
		text, err := h.readText(r, p)
		if err != nil {
			return err
		}
		n := bytes.Count(text, []byte(x.Old))
		counts[p] = map[string]int{"replacedCount": n}
		if n == 0 {
			continue
		}
		text = bytes.ReplaceAll(text, []byte(x.Old), []byte(x.New))
		if _, err := sessionfile.Write(r.Context(), h.cfg.Node, whoOf(r), protocol.FileWrite{
			FileRef: ref(r, p),
		}, bytes.NewReader(text), h.cfg.Call); err != nil {
			return err
		}
	}
	return surface.WriteJSON(w, http.StatusOK, counts)
}

// readText reads a file in which text is replaced. Errors: TooLarge.
func (h handler) readText(r *http.Request, p string) ([]byte, error) {
	f, err := sessionfile.Read(r.Context(), h.cfg.Node, whoOf(r),
		protocol.FileRead{FileRef: ref(r, p)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxReplace+1))
	if err == nil && len(text) > maxReplace {
		err = fault.New(fault.TooLarge, "execd.files", "text is replaced in files of at most %d bytes",
			maxReplace)
	}
	return text, err
}

// upload writes files: a form with pairs of a part metadata and a part file.
func (h handler) upload(w http.ResponseWriter, r *http.Request) error {
	malformed := func(why string) error {
		return fault.New(fault.Malformed, "execd.upload", "%s", why)
	}
	form, err := r.MultipartReader()
	if err != nil {
		return malformed("the body is not a form with files")
	}
	var meta struct {
		Path string `json:"path"`
		permission
	}
	for {
		part, err := form.NextPart()
		if err == io.EOF { //nolint:errorlint // the reader returns it as it is
			break
		}
		if err != nil {
			if fault.Is(err, fault.TooLarge) {
				return err
			}
			return malformed("the form is cut")
		}
		if part.FormName() == "metadata" {
			meta.Path, meta.permission = "", permission{}
			if json.NewDecoder(io.LimitReader(part, 1<<16)).Decode(&meta) != nil {
				return malformed("the metadata of a file is not JSON")
			}
			continue
		}
		if meta.Path == "" {
			return malformed("a file needs metadata with a path before it")
		}
		if err := h.uploadPart(r, meta.Path, meta.permission, part); err != nil {
			return err
		}
		meta.Path = ""
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (h handler) uploadPart(r *http.Request, p string, x permission, part *multipart.Part) error {
	if err := surface.CheckPath("execd.upload", p); err != nil {
		return err
	}
	mode, err := x.octal(0o644)
	if err != nil {
		return err
	}
	_, err = sessionfile.Write(r.Context(), h.cfg.Node, whoOf(r), protocol.FileWrite{
		FileRef: ref(r, p), Mode: mode,
	}, part, h.cfg.Call)
	return err
}

// download answers with a file, or with a range of its bytes.
func (h handler) download(w http.ResponseWriter, r *http.Request) error {
	all, err := paths(r)
	if err != nil {
		return err
	}
	q := protocol.FileRead{FileRef: ref(r, all[0])}
	status := http.StatusOK
	if from, to, ok := byteRange(r.Header.Get("Range")); ok {
		status, q.Offset = http.StatusPartialContent, from
		if to >= from {
			q.Length = to - from + 1
		}
	}
	f, err := sessionfile.Read(r.Context(), h.cfg.Node, whoOf(r), q)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", "attachment")
	header.Set("Content-Length", strconv.FormatInt(f.Part.Length, 10))
	if status == http.StatusPartialContent {
		header.Set("Content-Range", "bytes "+strconv.FormatInt(f.Part.Offset, 10)+"-"+
			strconv.FormatInt(f.Part.Offset+f.Part.Length-1, 10)+"/"+
			strconv.FormatInt(f.Part.Size, 10))
	}
	w.WriteHeader(status)
	_, err = io.Copy(w, f)
	return err
}

// byteRange reads the header Range with one range of known start. The end is -1 if it is open.
func byteRange(text string) (from, to int64, ok bool) {
	first, last, ok := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	from, err := strconv.ParseInt(first, 10, 64)
	if !ok || err != nil || from < 0 {
		return 0, 0, false
	}
	to, err = strconv.ParseInt(last, 10, 64)
	if err != nil {
		to = -1
	}
	return from, to, last == "" || err == nil
}
