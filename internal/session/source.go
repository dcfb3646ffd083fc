package session

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of what a template may say.
const (
	maxSpec      = 256 << 10 // bytes of template.json
	maxEntries   = 20_000    // files of a template
	maxCommands  = 64
	maxBuildLog  = 64 << 10
	sourceFile   = "source.json"
	filesFile    = "files.tar"
	imageFolder  = "oci"
	imageFile    = "image.erofs"
	templateJSON = "template.json"
)

// source is what a user's template is made from. It lies in a folder of its
// own: source.json is this, files.tar what is put into the sandbox, and
// image.erofs the root filesystem where it is not the server's. Nothing of it
// is ever opened by a name that a user chose.
type source struct {
	Tenant  string                `json:"tenant"`
	Subject string                `json:"subject,omitempty"`
	Name    string                `json:"name"`
	Created time.Time             `json:"created"`
	Spec    protocol.TemplateSpec `json:"spec"`
	Bytes   int64                 `json:"bytes"`
	// Digest is that of all it was made from.
	Digest string `json:"digest"`
	// OwnImage says that image.erofs is there; Languages are then those it
	// has, and ImageEnv the agent's environment.
	OwnImage  bool     `json:"own_image,omitempty"`
	Languages []string `json:"languages"`
	ImageEnv  []string `json:"image_env,omitempty"`

	dir string
}

// Images makes a root filesystem from an OCI image.
type Images interface {
	// Make reads the OCI layout in dir and writes an EROFS file to out, with
	// the agent and the drivers of the languages that it can run.
	Make(dir, out string) (languages, env []string, err error)
}

var templateName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

func checkTemplateName(op, name string) error {
	if !templateName.MatchString(name) {
		return fault.Invalid(op, "name", "%.80q is no name of a template: up to 63 lower-case letters, digits and hyphens", name)
	}
	return nil
}

func (s *source) key() string   { return s.Tenant + "/" + s.Name }
func (s *source) stamp() string { return s.Digest + s.Created.String() }

// env is what runs in it has in its environment: what its image says, but for
// who the user is, and over that what the template says.
func (s *source) env() map[string]string {
	env := map[string]string{}
	for _, e := range s.ImageEnv {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "PATH", "HOME", "USER", "LOGNAME", "SHELL":
		default:
			env[name] = value
		}
	}
	maps.Copy(env, s.Spec.Env)
	return env
}

func (s *source) image() string {
	if !s.OwnImage {
		return ""
	}
	return filepath.Join(s.dir, imageFile)
}

func (m *Manager) templatesDir() string { return filepath.Join(m.cfg.DataDir, "templates") }

// sourceDir is where a template lies. Tenants are not names of folders.
func (m *Manager) sourceDir(tenant, name string) string {
	sum := sha256.Sum256([]byte(tenant))
	return filepath.Join(m.templatesDir(), hex.EncodeToString(sum[:12])+"-"+name)
}

// checkSpec holds what a template says against the server's bounds, and brings
// it into one form.
func (m *Manager) checkSpec(tenant string, s *protocol.TemplateSpec, ownImage bool) (err error) {
	const op = "template.build"
	if err := checkEnv(op, s.Env); err != nil {
		return err
	}
	if err := m.checkLimits(op, &s.Limits); err != nil {
		return err
	}
	if len(s.Description) > 1024 || strings.ContainsFunc(s.Description, isControl) {
		return fault.Invalid(op, "description", "a description has at most 1024 bytes, without control characters")
	}
	for _, l := range s.Languages {
		if _, err := m.checkLanguage(op, l); err != nil && !ownImage {
			return err
		}
	}
	if len(s.Run) > maxCommands {
		return fault.Invalid(op, "run", "there are at most %d commands", maxCommands)
	}
	for _, r := range s.Run {
		if r == "" || len(r) > 64<<10 || strings.ContainsRune(r, 0) {
			return fault.Invalid(op, "run", "a command has between 1 and 65536 bytes, none of them zero")
		}
	}
	if s.Packages, err = checkPackages(op, s.Packages); err != nil {
		return err
	}
	if _, err := m.checkNetwork(op, "build_network", tenant, s.BuildNetwork); err != nil {
		return err
	}
	if _, err := m.checkNetwork(op, "session_network", tenant, s.SessionNetwork); err != nil {
		return err
	}
	if err := checkMounts(op, s.Volumes); err != nil {
		return err
	}
	if len(s.Code) > protocol.MaxCode {
		return &fault.Error{Kind: fault.TooLarge, Op: op, Field: "code", Message: fmt.Sprintf("code has at most %d bytes", protocol.MaxCode)}
	}
	return nil
}

// receive reads a template's tar into a new folder, which the caller renames
// or removes. What it names is checked, and nothing is unpacked by name: files
// go into another tar, an image's blobs have the names of their digests.
func (m *Manager) receive(p noderpc.Principal, name string, r io.Reader) (src *source, err error) {
	const op = "template.build"
	var suffix [8]byte
	rand.Read(suffix[:]) // never fails
	dir := m.sourceDir(p.Tenant, name) + ".partial-" + hex.EncodeToString(suffix[:])
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(storeFault(op, err), os.RemoveAll(dir))
		}
	}()
	src = &source{Tenant: p.Tenant, Subject: p.Subject, Name: name, Created: time.Now().UTC().Truncate(time.Second), dir: dir}
	hash := sha256.New()
	limited := &io.LimitedReader{R: io.TeeReader(r, hash), N: m.cfg.TemplateBytes + 1}
	in := tar.NewReader(limited)
	f, err := os.OpenFile(filepath.Join(dir, filesFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := tar.NewWriter(f)
	ownImage, supplied, specs := false, false, 0
	for n := 0; ; n++ {
		h, err := in.Next()
		if err == io.EOF && specs == 1 {
			break
		}
		switch {
		case limited.N <= 0:
			return nil, &fault.Error{Kind: fault.TooLarge, Op: op, Message: fmt.Sprintf("a template has at most %d bytes", m.cfg.TemplateBytes)}
		case err == io.EOF:
			return nil, fault.New(fault.Malformed, op, "the tar has no %s", templateJSON)
		case err != nil:
			var known *fault.Error
			if errors.As(err, &known) {
				return nil, err // it was cut short
			}
			return nil, &fault.Error{Kind: fault.Malformed, Op: op, Message: "the template is no tar", Err: err}
		case n > maxEntries:
			return nil, fault.New(fault.TooLarge, op, "a template has at most %d files", maxEntries)
		case h.Typeflag == tar.TypeDir:
			continue
		case h.Typeflag != tar.TypeReg:
			return nil, fault.Invalid(op, "files", "%.80q is no regular file", h.Name)
		case h.Name != path.Clean(h.Name) || path.IsAbs(h.Name) || strings.HasPrefix(h.Name, "../") || len(h.Name) > maxPath:
			return nil, fault.Invalid(op, "files", "%.80q is no path of a template", h.Name)
		}
		top, rest, _ := strings.Cut(h.Name, "/")
		switch {
		case n == 0 && h.Name == templateJSON:
			specs++
			err = readSpec(in, &src.Spec)
		case specs == 0:
			err = fault.New(fault.Malformed, op, "the tar does not begin with %s", templateJSON)
		case top == "files" && rest != "", top == "packages" && rest != "":
			supplied = supplied || top == "packages"
			if err = out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: h.Name, Size: h.Size, Mode: h.Mode & 0o777, Format: tar.FormatPAX}); err == nil {
				_, err = io.Copy(out, in)
			}
		case top == imageFolder:
			ownImage = true
			err = writeBlob(filepath.Join(dir, imageFolder), rest, in)
		default:
			err = fault.Invalid(op, "files", "a template has nothing called %.80q", h.Name)
		}
		switch {
		case err != nil && limited.N <= 0:
			return nil, &fault.Error{Kind: fault.TooLarge, Op: op, Message: fmt.Sprintf("a template has at most %d bytes", m.cfg.TemplateBytes)}
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, &fault.Error{Kind: fault.Malformed, Op: op, Message: "the template's tar ends in the middle of a file", Err: err}
		case err != nil:
			return nil, err
		}
	}
	if _, err := io.Copy(io.Discard, limited); err != nil {
		return nil, err
	}
	if err := errors.Join(out.Close(), f.Sync()); err != nil {
		return nil, err
	}
	if ownImage && m.cfg.Images == nil {
		return nil, &fault.Error{Kind: fault.Unsupported, Op: op, Field: "image", Message: "this server makes no templates from other images"}
	}
	if err := m.checkSpec(p.Tenant, &src.Spec, ownImage); err != nil {
		return nil, err
	}
	if n := src.Spec.BuildNetwork; len(src.Spec.Packages) > 0 && !supplied && (n == nil || n.Off) {
		return nil, fault.Invalid(op, "packages", "there is nothing that they could come from: bring their files, or let the build out to an index with build_network")
	}
	src.Digest = hex.EncodeToString(hash.Sum(nil))
	return src, m.finishSource(src, ownImage)
}

// finishSource makes the image and notes all that is known.
func (m *Manager) finishSource(src *source, ownImage bool) error {
	const op = "template.build"
	var have []string
	for _, l := range m.cfg.Languages {
		have = append(have, l.Name)
	}
	if ownImage {
		var err error
		oci := filepath.Join(src.dir, imageFolder)
		src.OwnImage = true
		if have, src.ImageEnv, err = m.cfg.Images.Make(oci, filepath.Join(src.dir, imageFile)); err != nil {
			return err
		}
		if err := os.RemoveAll(oci); err != nil {
			return err
		}
	}
	src.Languages = have
	if len(src.Spec.Languages) > 0 {
		src.Languages = nil
		for _, want := range src.Spec.Languages {
			l, ok := m.cfg.language(want)
			if !ok || !contains(have, l.Name) {
				return fault.Invalid(op, "languages", "the image has no language %.40q; it has %s", want, strings.Join(have, ", "))
			}
			src.Languages = append(src.Languages, l.Name)
		}
	}
	if src.Spec.Code != "" && len(src.Languages) == 0 {
		return fault.Invalid(op, "code", "the image has no language that could run it")
	}
	entries, err := os.ReadDir(src.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			src.Bytes += fi.Size()
		}
	}
	data, err := json.Marshal(src)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(src.dir, sourceFile), data)
}

// warmLanguage is the one that runs in each of its sandboxes.
func (m *Manager) warmLanguage(src *source) string {
	if len(src.Spec.Languages) == 0 && contains(src.Languages, m.cfg.defaultLanguage()) {
		return m.cfg.defaultLanguage()
	}
	if len(src.Languages) > 0 {
		return src.Languages[0]
	}
	return ""
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func readSpec(r io.Reader, spec *protocol.TemplateSpec) error {
	const op = "template.build"
	data, err := io.ReadAll(io.LimitReader(r, maxSpec+1))
	if err != nil {
		return err
	}
	if len(data) > maxSpec {
		return fault.New(fault.TooLarge, op, "%s has at most %d bytes", templateJSON, maxSpec)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(spec); err != nil {
		field := "template"
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			field = strings.Trim(name, `"`)
		}
		return &fault.Error{Kind: fault.InvalidArgument, Op: op, Field: field, Message: templateJSON + " is not what a template says", Err: err}
	}
	return nil
}

var blobName = regexp.MustCompile(`^(oci-layout|index\.json|blobs/sha256/[0-9a-f]{64})$`)

// writeBlob writes one file of an OCI layout.
func writeBlob(dir, name string, r io.Reader) error {
	if !blobName.MatchString(name) {
		return fault.Invalid("template.build", "image", "an OCI layout has no file %.100q", name)
	}
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// storeFault says what became of the disk.
func storeFault(op string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return fault.Wrap(fault.Host, op, err)
}

// loadTemplates finds the templates that earlier processes have stored.
func (m *Manager) loadTemplates() error {
	entries, err := os.ReadDir(m.templatesDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(m.templatesDir(), e.Name())
		t, err := m.loadTemplate(dir)
		if err == nil {
			m.own[t.key] = t
			continue
		}
		m.log.Warn("a template is not whole and is removed", "template", e.Name(), "error", err)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) loadTemplate(dir string) (*template, error) {
	data, err := os.ReadFile(filepath.Join(dir, sourceFile))
	if err != nil {
		return nil, err
	}
	src := &source{dir: dir}
	if err := json.Unmarshal(data, src); err != nil {
		return nil, err
	}
	if m.sourceDir(src.Tenant, src.Name) != dir {
		return nil, fs.ErrInvalid
	}
	return m.templateOf(src)
}

// templateOf is the template of a source.
func (m *Manager) templateOf(src *source) (*template, error) {
	l, _ := m.cfg.language(m.warmLanguage(src)) // without one it is empty
	return m.newTemplate(l, src)
}
