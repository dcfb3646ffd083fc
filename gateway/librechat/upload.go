package librechat

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The values of message and status in the answer to an upload.
const (
	messageSuccess = "success"
	messagePartial = "partial_success"
	messageError   = "error"
)

// maxField is the largest field of a form that is not a file, in bytes.
const maxField = 4096

// uploaded is one file in the answer to an upload.
type uploaded struct {
	Status   string `json:"status,omitempty"`
	Filename string `json:"filename"`
	FileID   string `json:"fileId,omitempty"`
	Error    string `json:"error,omitempty"`
}

// uploadAnswer is the answer to an upload of one file.
type uploadAnswer struct {
	Message string     `json:"message"`
	Session string     `json:"session_id"`
	Storage string     `json:"storage_session_id"`
	Files   []uploaded `json:"files"`
}

// batchAnswer is the answer to an upload of many files.
type batchAnswer struct {
	uploadAnswer
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
}

// form is an upload while it is read.
type form struct {
	storage string
	owner   store.Owner
	files   []store.File
	results []uploaded
}

// upload stores one file.
func (s *Surface) upload(w http.ResponseWriter, r *http.Request) error {
	f, err := s.readForm(r, 1)
	if err != nil {
		return err
	}
	a := f.answer(messageSuccess)
	a.Files[0].Status = ""
	return surface.WriteJSON(w, http.StatusOK, a)
}

// uploadBatch stores many files. A file that cannot be stored does not stop the others.
func (s *Surface) uploadBatch(w http.ResponseWriter, r *http.Request) error {
	f, err := s.readForm(r, maxParts)
	if err != nil {
		return err
	}
	b := batchAnswer{Succeeded: len(f.files), Failed: len(f.results) - len(f.files)}
	message := messageSuccess
	switch {
	case b.Succeeded == 0:
		message = messageError
	case b.Failed > 0:
		message = messagePartial
	}
	b.uploadAnswer = f.answer(message)
	return surface.WriteJSON(w, http.StatusOK, b)
}

func (f *form) answer(message string) uploadAnswer {
	return uploadAnswer{Message: message, Session: f.storage, Storage: f.storage, Files: f.results}
}

// readForm stores the files of a form. Fields that say what the files belong to may follow them.
// Errors: those of the form, and with one file that of the file.
func (s *Surface) readForm(r *http.Request, most int) (*form, error) {
	const op = "librechat.upload"
	in, err := r.MultipartReader()
	if err != nil {
		return nil, fault.New(fault.Malformed, op, "the body is not a form with files")
	}
	f := &form{storage: store.NewID()}
	for {
		part, err := in.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, surface.FormError(op, err)
		}
		if part.FormName() != "file" {
			if err := f.field(part); err != nil {
				return nil, err
			}
			continue
		}
		if len(f.results) == most {
			return nil, fault.Invalid(op, "file", "an upload has at most %d files", most)
		}
		err = s.readFile(r, f, part)
		if err != nil && (most == 1 || r.Context().Err() != nil) {
			return nil, err
		}
	}
	if len(f.results) == 0 {
		return nil, fault.Invalid(op, "file", "the form has no file")
	}
	if err := f.owner.Check(); err != nil {
		return nil, err
	}
	for _, file := range f.files {
		if _, err := s.files.SetOwner(r.Context(), userOf(r), file, f.owner); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// field reads a field that says what the files belong to. Other fields have no effect.
func (f *form) field(part *multipart.Part) error {
	const op = "librechat.upload"
	text, err := io.ReadAll(io.LimitReader(part, maxField+1))
	if err != nil {
		return surface.FormError(op, err)
	}
	value := string(text)
	switch part.FormName() {
	case "kind":
		f.owner.Kind = value
	case "id":
		f.owner.ID = value
	case "version":
		if f.owner.Version, err = strconv.Atoi(value); err != nil && value != "" {
			return fault.Invalid(op, "version", "a version is a number")
		}
	case "read_only":
		f.owner.ReadOnly = value == "true"
	}
	return nil
}

// readFile stores one file of a form and adds its result.
func (s *Surface) readFile(r *http.Request, f *form, part *multipart.Part) error {
	// FileName would drop the folders of the name.
	_, at, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	var name string
	if err == nil {
		name, err = store.CleanName(folder, at["filename"])
	}
	var file store.File
	if err == nil {
		file, err = s.files.Create(r.Context(), userOf(r),
			store.File{Storage: f.storage, Name: name, Owner: f.owner},
			surface.FormPart{Reader: part, Op: "librechat.upload"}, maxFile)
	}
	if err != nil {
		f.results = append(f.results, uploaded{
			Status: messageError, Filename: at["filename"], Error: fault.PublicOf(err).Message,
		})
		return err
	}
	f.files = append(f.files, file)
	f.results = append(f.results,
		uploaded{Status: messageSuccess, Filename: name, FileID: file.ID})
	return nil
}
