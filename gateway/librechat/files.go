package librechat

import (
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The values of the query detail of a listing.
const (
	detailSimple     = "simple"
	detailSummary    = "summary"
	detailFull       = "full"
	detailNormalized = "normalized"
)

// listed is a file in a listing. A detail level sets some of the fields.
type listed struct {
	// Name is STORAGE/FILE, and the name of the file itself in a normalized listing.
	Name         string            `json:"name"`
	ID           string            `json:"id"`
	Session      string            `json:"session_id,omitempty"`
	Storage      string            `json:"storage_session_id,omitempty"`
	Size         *int64            `json:"size,omitempty"`
	LastModified *time.Time        `json:"lastModified,omitempty"`
	ETag         string            `json:"etag,omitempty"`
	ContentType  string            `json:"contentType,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Kind         string            `json:"kind,omitempty"`
	Resource     string            `json:"resource_id,omitempty"`
	Version      int               `json:"version,omitempty"`
}

// object describes one file.
type object struct {
	Name         string    `json:"name"`
	OriginalName string    `json:"originalFilename"`
	Size         int64     `json:"size"`
	LastModified time.Time `json:"lastModified"`
	ETag         string    `json:"etag"`
	ContentType  string    `json:"contentType"`
}

// asked returns the owner that the query of a request names.
func asked(r *http.Request) (store.Owner, error) {
	q := r.URL.Query()
	o := store.Owner{Kind: q.Get("kind"), ID: q.Get("id")}
	if v := q.Get("version"); v != "" {
		var err error
		if o.Version, err = strconv.Atoi(v); err != nil {
			return o, fault.Invalid("librechat.files", "version", "a version is a number")
		}
	}
	return o, o.Check()
}

// file returns the stored file that the path of a request names. Errors: NotFound also for a file of
// another user or owner.
func (s *Surface) file(r *http.Request) (store.File, error) {
	owner, err := asked(r)
	if err != nil {
		return store.File{}, err
	}
	f, err := s.files.Get(r.Context(), userOf(r), r.PathValue("session"), r.PathValue("file"))
	if err == nil && !f.Owner.Admits(owner) {
		err = &fault.Error{
			Kind: fault.NotFound, Op: "librechat.files", Field: "file",
			Message: "there is no such file",
		}
	}
	return f, err
}

// download sends a file.
func (s *Surface) download(w http.ResponseWriter, r *http.Request) error {
	f, err := s.file(r)
	if err != nil {
		return err
	}
	content, err := s.files.Open(r.Context(), userOf(r), f)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	surface.Download{Name: f.Name, Type: contentType(f.Name), Size: f.Size}.Send(w, r, content)
	return nil
}

// listFiles lists the files of a storage session.
func (s *Surface) listFiles(w http.ResponseWriter, r *http.Request) error {
	owner, err := asked(r)
	if err != nil {
		return err
	}
	detail := r.URL.Query().Get("detail")
	switch detail {
	case "":
		detail = detailSimple
	case detailSimple, detailSummary, detailFull, detailNormalized:
	default:
		return fault.Invalid("librechat.files", "detail",
			"it is simple, summary, full or normalized")
	}
	all, err := s.files.List(r.Context(), userOf(r), r.PathValue("session"))
	if err != nil {
		return err
	}
	list := []listed{}
	for _, f := range all {
		if f.Owner.Admits(owner) {
			list = append(list, describe(f, detail))
		}
	}
	return surface.WriteJSON(w, http.StatusOK, list)
}

// describe returns a file of a listing with a level of detail.
func describe(f store.File, detail string) listed {
	l := listed{Name: f.Storage + "/" + f.ID, ID: f.ID}
	if detail == detailSimple {
		return l
	}
	l.Session, l.Storage = f.Storage, f.Storage
	l.Size, l.LastModified = &f.Size, &f.Modified
	switch detail {
	case detailNormalized:
		l.Name = f.Name
		l.Kind, l.Resource, l.Version = f.Owner.Kind, f.Owner.ID, f.Owner.Version
	case detailFull:
		l.ETag, l.ContentType = f.ETag, contentType(f.Name)
		l.Kind, l.Resource, l.Version = f.Owner.Kind, f.Owner.ID, f.Owner.Version
		fallthrough
	default:
		l.Metadata = map[string]string{"original-filename": f.Name}
	}
	return l
}

// getObject describes one file.
func (s *Surface) getObject(w http.ResponseWriter, r *http.Request) error {
	f, err := s.file(r)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, object{
		Name: f.Storage + "/" + f.ID, OriginalName: f.Name, Size: f.Size,
		LastModified: f.Modified, ETag: f.ETag, ContentType: contentType(f.Name),
	})
}

// deleteFile removes one file.
func (s *Surface) deleteFile(w http.ResponseWriter, r *http.Request) error {
	f, err := s.file(r)
	if err != nil {
		return err
	}
	if err := s.files.Remove(r.Context(), userOf(r), f.Storage, f.ID); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]string{"message": messageSuccess})
}

func contentType(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}
