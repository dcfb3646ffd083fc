package warm

import (
	"archive/tar"
	"bytes"
	"context"
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
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of a template.
const (
	maxSpec      = 256 << 10 // bytes of template.json
	maxEntries   = 20_000    // files of a template
	maxCommands  = 64
	maxPath      = 4096 // bytes of a path
	maxBuildLog  = 64 << 10
	defFile      = "source.json"
	filesFile    = "files.tar"
	imageFolder  = "oci"
	imageFile    = "image.erofs"
	templateJSON = "template.json"
	templateYAML = "template.yaml"
)

// TemplateDef is the definition of a user's template. It has a folder of its own: source.json is this
// struct, files.tar has the files for the sandbox, and image.erofs is the root filesystem if the
// template has its own image. No file is opened by a name that a user chose.
type TemplateDef struct {
	Tenant  string                `json:"tenant"`
	Subject string                `json:"subject,omitempty"`
	Name    string                `json:"name"`
	Created time.Time             `json:"created"`
	Spec    protocol.TemplateSpec `json:"spec"`
	Bytes   int64                 `json:"bytes"`
	// Digest is the SHA-256 of the tar.
	Digest string `json:"digest"`
	// OwnImage reports whether image.erofs exists. ImageEnv is then the agent's environment, and
	// Languages are the languages of the image.
	OwnImage  bool     `json:"own_image,omitempty"`
	Languages []string `json:"languages"`
	ImageEnv  []string `json:"image_env,omitempty"`
	// Kernelspecs are the languages that the image or the files declare: Jupyter kernels and
	// program languages.
	Kernelspecs []kernel.Manifest `json:"kernelspecs,omitempty"`

	dir  string
	mark atomic.Pointer[Mark] // nil for the zero value
}

// Images makes a root filesystem from an OCI image.
type Images interface {
	// Make reads the OCI layout in dir and writes an EROFS file to out, with
	// the agent and the drivers of the languages that it can run. specs are the languages of its
	// kernelspecs. It stops when ctx ends.
	Make(ctx context.Context, dir, out string) (languages []string, specs []kernel.Manifest,
		env []string, err error)
}

// Unpacker reads the tars of users' templates.
type Unpacker interface {
	// Unpack reads a tar like Unpack. It stops when ctx ends.
	Unpack(ctx context.Context, tar io.Reader, dir string, limit int64) (Unpacked, error)
}

var templateName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// IsName reports whether a template can have a name.
func IsName(name string) bool { return templateName.MatchString(name) }

func checkName(op, name string) error {
	if !IsName(name) {
		return fault.Invalid(op, "name",
			"%.80q is no name of a template: up to 63 lower-case letters, digits and hyphens", name)
	}
	return nil
}

func (s *TemplateDef) key() string   { return s.Tenant + "/" + s.Name }
func (s *TemplateDef) stamp() string { return s.Digest + s.Created.String() }

// env returns the environment of its programs: the variables of the image except PATH and those that
// name the user, and then the variables of the template.
func (s *TemplateDef) env() map[string]string {
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

func (s *TemplateDef) image() string {
	if !s.OwnImage {
		return ""
	}
	return filepath.Join(s.dir, imageFile)
}

// definitions receives, checks and stores the definitions of users' templates. It has no state but
// the folder templates.
type definitions struct {
	cfg Config
	// uploads and builds bound what a tenant may do at a time.
	uploads, builds *tenantlimit.Shares
}

// dir returns the folder of a definition. The tenant's name is hashed, since it may not be a valid
// name of a folder.
func (d *definitions) dir(tenant, name string) string {
	sum := sha256.Sum256([]byte(tenant))
	return filepath.Join(d.cfg.templatesDir(), hex.EncodeToString(sum[:12])+"-"+name)
}

// newDir makes a folder for a definition that is not complete.
func (d *definitions) newDir(tenant, name string) (string, error) {
	var suffix [8]byte
	rand.Read(suffix[:]) // never fails
	dir := d.dir(tenant, name) + ".partial-" + hex.EncodeToString(suffix[:])
	return dir, os.Mkdir(dir, 0o700)
}

// check checks a template's specification and normalizes it.
func (d *definitions) check(tenant string, s *protocol.TemplateSpec) (err error) {
	const op = "template.build"
	if err := d.cfg.Host.CheckSpec(tenant, s); err != nil {
		return err
	}
	if len(s.Description) > 1024 || strings.ContainsFunc(s.Description, isControl) {
		return fault.Invalid(op, "description",
			"a description has at most 1024 bytes, without control characters")
	}
	if len(s.Run) > maxCommands {
		return fault.Invalid(op, "run", "there are at most %d commands", maxCommands)
	}
	for _, r := range s.Run {
		if r == "" || len(r) > 64<<10 || strings.ContainsRune(r, 0) {
			return fault.Invalid(op, "run",
				"a command has between 1 and 65536 bytes, none of them zero")
		}
	}
	if s.Packages, err = d.cfg.checkPackages(op, s.Packages); err != nil {
		return err
	}
	if len(s.Code) > protocol.MaxCode {
		return &fault.Error{
			Kind: fault.TooLarge, Op: op, Field: "code",
			Message: fmt.Sprintf("code has at most %d bytes", protocol.MaxCode),
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// receive reads a template's tar into a new folder. The caller renames or removes the folder.
func (d *definitions) receive(ctx context.Context, tenant, subject, name string,
	r io.Reader,
) (def *TemplateDef, err error) {
	const op = "template.build"
	dir, err := d.newDir(tenant, name)
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(diskFault(op, err), os.RemoveAll(dir))
		}
	}()
	def = &TemplateDef{
		Tenant: tenant, Subject: subject, Name: name,
		Created: time.Now().UTC().Truncate(time.Second), dir: dir,
	}
	u, err := d.cfg.Unpacker.Unpack(ctx, contextReader{ctx, r}, dir, d.cfg.TemplateBytes)
	if err != nil {
		return nil, err
	}
	def.Spec, def.Digest = u.Spec, u.Digest
	if u.Image && d.cfg.Images == nil {
		return nil, &fault.Error{
			Kind: fault.Unsupported, Op: op, Field: "image",
			Message: "this server makes no templates from other images",
		}
	}
	if err := d.check(tenant, &def.Spec); err != nil {
		return nil, err
	}
	if n := def.Spec.BuildNetwork; len(def.Spec.Packages) > 0 && !u.Packages &&
		(n == nil || n.Off) {
		return nil, fault.Invalid(op, "packages",
			"there is nothing that they could come from: bring their files, or let the build out to an index with build_network")
	}
	return def, d.finish(ctx, def, u.Image)
}

// Unpacked describes the content of a template's tar.
type Unpacked struct {
	Spec protocol.TemplateSpec `json:"spec"`
	// Image and Packages report whether the tar has an image, and files of packages.
	Image    bool `json:"image"`
	Packages bool `json:"packages"`
	// Digest is the SHA-256 of the tar.
	Digest string `json:"digest"`
}

// Unpack reads a template's tar of at most limit bytes into dir. Nothing is unpacked by name: files
// are copied into another tar, and the names of an image's blobs are their digests.
func Unpack(r io.Reader, dir string, limit int64) (Unpacked, error) {
	hash := sha256.New()
	f, err := os.OpenFile(filepath.Join(dir, filesFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Unpacked{}, diskFault("template.build", err)
	}
	defer f.Close()
	u := &upload{dir: dir, out: tar.NewWriter(f), limit: limit, left: limit}
	if err := u.read(io.TeeReader(r, hash)); err != nil {
		return Unpacked{}, diskFault("template.build", err)
	}
	if err := errors.Join(u.out.Close(), f.Sync(), f.Close()); err != nil {
		return Unpacked{}, diskFault("template.build", err)
	}
	u.found.Digest = hex.EncodeToString(hash.Sum(nil))
	return u.found, nil
}

// contextReader fails when ctx ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fault.Wrap(fault.KindOf(err), "template.build", err)
	}
	return r.Reader.Read(p)
}

// upload is a template's tar that is being read.
type upload struct {
	dir string
	// out receives the files for the sandbox.
	out *tar.Writer
	// limit bounds the tar. left is the part of it that the contents of files may still take.
	limit, left int64
	found       Unpacked
	// spec reports whether the tar has template.json.
	spec bool
}

// read reads the whole tar.
func (u *upload) read(r io.Reader) error {
	const op = "template.build"
	limited := &io.LimitedReader{R: r, N: u.limit + 1}
	in := tar.NewReader(limited)
	for n := 0; ; n++ {
		h, err := in.Next()
		switch {
		case err == io.EOF && u.spec:
			_, err := io.Copy(io.Discard, limited)
			return err
		case limited.N <= 0:
			return u.tooLarge()
		case err == io.EOF:
			return fault.New(fault.Malformed, op, "the tar has no %s", templateJSON)
		case err != nil:
			var known *fault.Error
			if errors.As(err, &known) {
				return err // it was cut short
			}
			return &fault.Error{
				Kind: fault.Malformed, Op: op, Message: "the template is no tar",
				Err: err,
			}
		}
		err = u.readEntry(n, h, in)
		switch {
		case err != nil && limited.N <= 0:
			return u.tooLarge()
		case errors.Is(err, io.ErrUnexpectedEOF):
			return &fault.Error{
				Kind: fault.Malformed, Op: op,
				Message: "the template's tar ends in the middle of a file", Err: err,
			}
		case err != nil:
			return err
		}
	}
}

func (u *upload) tooLarge() error {
	return &fault.Error{
		Kind: fault.TooLarge, Op: "template.build",
		Message: fmt.Sprintf("a template has at most %d bytes", u.limit),
	}
}

// readEntry reads the n-th entry of the tar.
func (u *upload) readEntry(n int, h *tar.Header, in io.Reader) error {
	const op = "template.build"
	switch {
	case n > maxEntries:
		return fault.New(fault.TooLarge, op, "a template has at most %d files", maxEntries)
	case h.Typeflag == tar.TypeDir:
		return nil
	case h.Typeflag != tar.TypeReg:
		return fault.Invalid(op, "files", "%.80q is no regular file", h.Name)
	case h.Name != path.Clean(h.Name) || path.IsAbs(h.Name) || strings.HasPrefix(h.Name, "../") ||
		len(h.Name) > maxPath:
		return fault.Invalid(op, "files", "%.80q is no path of a template", h.Name)
	}
	if sparse(h) {
		return fault.Invalid(op, "files", "%.80q is a sparse file; write it with all its bytes", h.Name)
	}
	if h.Size > u.left {
		return u.tooLarge() // before anything is written
	}
	u.left -= h.Size
	top, rest, _ := strings.Cut(h.Name, "/")
	switch {
	case n == 0 && (h.Name == templateJSON || h.Name == templateYAML):
		u.spec = true
		return readSpec(h.Name, in, &u.found.Spec)
	case !u.spec:
		return fault.New(fault.Malformed, op, "the tar does not begin with %s or %s", templateJSON,
			templateYAML)
	case top == "files" && rest != "", top == "packages" && rest != "":
		u.found.Packages = u.found.Packages || top == "packages"
		if err := u.out.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: h.Name, Size: h.Size,
			Mode: h.Mode & 0o777, Format: tar.FormatPAX,
		}); err != nil {
			return err
		}
		_, err := io.Copy(u.out, in)
		return err
	case top == imageFolder:
		u.found.Image = true
		return writeBlob(filepath.Join(u.dir, imageFolder), rest, in)
	}
	return fault.Invalid(op, "files", "a template has nothing called %.80q", h.Name)
}

// sparse reports whether an entry declares bytes that the tar does not have. A few bytes could
// declare any size.
func sparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// finish makes the image and writes the definition.
func (d *definitions) finish(ctx context.Context, def *TemplateDef, ownImage bool) error {
	const op = "template.build"
	var have []string
	for _, l := range d.cfg.Languages {
		have = append(have, l.Name)
	}
	if ownImage {
		release, err := d.builds.Reserve(op, def.Tenant)
		if err != nil {
			return err
		}
		defer release()
		ctx, cancel := context.WithTimeout(ctx, d.cfg.BuildLimit)
		defer cancel()
		oci := filepath.Join(def.dir, imageFolder)
		def.OwnImage = true
		if have, def.Kernelspecs, def.ImageEnv, err = d.cfg.Images.Make(ctx, oci,
			filepath.Join(def.dir, imageFile)); err != nil {
			return err
		}
		if err := os.RemoveAll(oci); err != nil {
			return err
		}
	}
	if err := d.addDeclared(def); err != nil {
		return err
	}
	for _, l := range def.Kernelspecs {
		have = append(have, l.Name)
	}
	def.Languages = have
	if len(def.Spec.Languages) > 0 {
		def.Languages = nil
		for _, want := range def.Spec.Languages {
			l, ok := d.cfg.language(want, def.Kernelspecs...)
			if !ok || !slices.Contains(have, l.Name) {
				return fault.Invalid(op, "languages", "the image has no language %.40q; it has %s",
					want, strings.Join(have, ", "))
			}
			def.Languages = append(def.Languages, l.Name)
		}
	}
	if def.Spec.Code != "" && len(def.Languages) == 0 {
		return fault.Invalid(op, "code", "the image has no language that could run it")
	}
	entries, err := os.ReadDir(def.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			def.Bytes += fi.Size()
		}
	}
	data, err := json.Marshal(def)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(def.dir, defFile), data)
}

// addDeclared adds the languages that are declared among the template's files.
func (d *definitions) addDeclared(def *TemplateDef) error {
	f, err := os.Open(filepath.Join(def.dir, filesFile))
	if err != nil {
		return err
	}
	defer f.Close()
	files := map[string][]byte{}
	in := tar.NewReader(f)
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(h.Name, "files/")
		if ok && kernel.IsDeclaration(name) && h.Size <= maxSpec {
			if files[name], err = io.ReadAll(in); err != nil {
				return err
			}
		}
	}
	known := append(slices.Clone(d.cfg.Languages), def.Kernelspecs...)
	def.Kernelspecs = append(def.Kernelspecs, kernel.Declared(files, known)...)
	return nil
}

// load reads the definition in a folder.
func (d *definitions) load(dir string) (*TemplateDef, error) {
	def, err := readDef(dir)
	if err == nil && d.dir(def.Tenant, def.Name) != dir {
		return nil, fs.ErrInvalid
	}
	return def, err
}

// readDef reads a definition and its mark.
func readDef(dir string) (*TemplateDef, error) {
	data, err := os.ReadFile(filepath.Join(dir, defFile))
	if err != nil {
		return nil, err
	}
	def := &TemplateDef{dir: dir}
	if err := json.Unmarshal(data, def); err != nil {
		return nil, err
	}
	k, err := readMark(dir)
	def.mark.Store(&k)
	return def, err
}

// warmLanguage returns the language whose kernel runs in the sandboxes of a template.
func (d *definitions) warmLanguage(def *TemplateDef) string {
	if len(def.Spec.Languages) == 0 && slices.Contains(def.Languages, d.cfg.DefaultLanguage) {
		return d.cfg.DefaultLanguage
	}
	if len(def.Languages) > 0 {
		return def.Languages[0]
	}
	return ""
}

// readSpec reads template.json, or template.yaml with the same fields. name is its name.
func readSpec(name string, r io.Reader, spec *protocol.TemplateSpec) error {
	const op = "template.build"
	data, err := io.ReadAll(io.LimitReader(r, maxSpec+1))
	if err != nil {
		return err
	}
	if len(data) > maxSpec {
		return fault.New(fault.TooLarge, op, "%s has at most %d bytes", name, maxSpec)
	}
	if name == templateYAML {
		if data, err = asJSON(data); err != nil {
			return fault.Invalid(op, "template", "%s: %v", name, err)
		}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(spec); err != nil {
		field := "template"
		if unknown, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			field = strings.Trim(unknown, `"`)
		}
		return &fault.Error{
			Kind: fault.InvalidArgument, Op: op, Field: field,
			Message: name + " is not what a template says", Err: err,
		}
	}
	return nil
}

// asJSON returns the JSON of a YAML document. An empty document is {}.
func asJSON(data []byte) ([]byte, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
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

// diskFault converts an error of the file system to the kind Host.
func diskFault(op string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return fault.Wrap(fault.Host, op, err)
}

// inProcess reads the tars of templates in this process.
type inProcess struct{}

func (inProcess) Unpack(_ context.Context, tar io.Reader, dir string,
	limit int64,
) (Unpacked, error) {
	return Unpack(tar, dir, limit)
}
