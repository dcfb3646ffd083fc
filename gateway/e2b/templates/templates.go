// Package templates builds templates as the builder of E2B's clients asks for them: a base, files to
// copy, commands, variables, a start command and tags.
//
// A build is one native template for each of its tags. Its steps become the native specification:
// files are copied first, then the commands run in their order as the user of the sandbox, and the
// start command becomes a service. Files that clients upload before the build are kept in memory,
// within the bounds of the store.
package templates

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxBody bounds the body of a request without files, in bytes.
	maxBody = 4 << 20
	// descriptionOf begins the description of a template that was built here. The id of the build
	// follows.
	descriptionOf = "E2B build "
	// purposeFiles is the purpose of the tokens with which files are uploaded.
	purposeFiles = "files of templates"
)

// Node is the part of a node that builds need.
type Node interface {
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Upload performs an operation whose content is r.
type Upload func(ctx context.Context, who noderpc.Principal, op string, params any, r io.Reader,
	result any) error

// Config configures a Builder. Every field is required.
type Config struct {
	Node   Node
	Upload Upload
	// Call is how long a request to the node may take.
	Call time.Duration
	// Tokens returns the token of a name for a purpose.
	Tokens func(purpose, name string) (string, error)
}

// Builder builds templates.
type Builder struct {
	cfg   Config
	store *store
}

// New returns a Builder.
func New(cfg Config) *Builder { return &Builder{cfg, newStore()} }

// Routes returns the routes of builds.
func (b *Builder) Routes() []surface.Route {
	row := func(method, path string, scope protocol.Scope, body int64,
		h surface.HandlerFunc,
	) surface.Route {
		return surface.Route{Method: method, Path: path, Access: scope, MaxBody: body, Handler: h}
	}
	manage, read := protocol.ScopeManage, protocol.ScopeRead
	const build = "/templates/:id/builds/:build"
	return []surface.Route{
		row("POST", "/v3/templates", manage, maxBody, b.request),
		row("POST", "/v2"+build, manage, maxBody, b.start),
		row("GET", build+"/status", read, 0, b.status),
		row("GET", build+"/logs", read, 0, b.logs),
		row("GET", "/templates/:id/files/:hash", manage, 0, b.link),
		// The address has the credentials.
		row("PUT", "/templates/files/:tenant/:hash/:token", protocol.ScopeOpen, maxArchive,
			b.upload),
		row("POST", "/templates/tags", manage, maxBody, b.assignTags),
		row("DELETE", "/templates/tags", manage, maxBody, b.removeTags),
	}
}

// newTemplate is the body of a request for a build.
type newTemplate struct {
	Name  string   `json:"name"`
	Alias string   `json:"alias"`
	Tags  []string `json:"tags"`
	CPUs  *float64 `json:"cpuCount"`
	MemMB *int64   `json:"memoryMB"`
	// The following have no effect: a tenant has one team, and the disk is bounded by the server.
	FreeMB *int64 `json:"minFreeDiskMb"`
	Team   string `json:"teamID"`
}

// requested is the result of a request for a build.
type requested struct {
	Template string   `json:"templateID"`
	Build    string   `json:"buildID"`
	Names    []string `json:"names"`
	Aliases  []string `json:"aliases"`
	Tags     []string `json:"tags"`
	Public   bool     `json:"public"`
}

// request begins a build, which waits for its files and its steps.
func (b *Builder) request(w http.ResponseWriter, r *http.Request) error {
	var p newTemplate
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	if p.Name == "" {
		p.Name = p.Alias
	}
	name, tags, err := parseName(p.Name, p.Tags)
	if err != nil {
		return err
	}
	q := &request{tags: tags, at: time.Now()}
	for _, tag := range tags {
		q.names = append(q.names, Native(name+":"+tag))
	}
	if p.CPUs != nil {
		if q.cpus = *p.CPUs; q.cpus <= 0 {
			return invalid("cpuCount", "it is above 0")
		}
	}
	if p.MemMB != nil {
		if q.memory = *p.MemMB << 20; *p.MemMB < 1 || *p.MemMB > 1<<24 {
			return invalid("memoryMB", "it is from 1 to %d", 1<<24)
		}
	}
	id := newID()
	if err := b.store.keepBuild(key{surface.CallOf(r).Who.Tenant, id}, q); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusAccepted, requested{
		Template: name, Build: id, Names: []string{name}, Aliases: []string{name}, Tags: tags,
	})
}

// newID returns a random id in the form of a UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// find returns a build that this gateway has begun. Errors: NotFound.
func (b *Builder) find(r *http.Request) (key, request, error) {
	k := key{surface.CallOf(r).Who.Tenant, r.PathValue("build")}
	q, ok := b.store.build(k)
	if ok {
		own, _ := Name(q.names[0])
		if name, _ := Name(Native(Param(r, "id"))); name == own {
			return k, q, nil
		}
	}
	return k, q, fault.New(fault.NotFound, "e2b.template",
		"this gateway has no build %.80q of this template", k.id)
}

// start builds the template, once for each tag. The response comes before the builds end.
func (b *Builder) start(w http.ResponseWriter, r *http.Request) error {
	var p startRequest
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	k, q, err := b.find(r)
	if err != nil {
		return err
	}
	made, err := planOf(p)
	if err != nil {
		return err
	}
	for _, c := range made.copies {
		if _, ok := b.store.archive(key{k.tenant, c.hash}); !ok {
			return missing(c)
		}
	}
	made.spec.Description = descriptionOf + k.id
	made.spec.Limits = protocol.Limits{CPUs: q.cpus, MemoryBytes: q.memory}
	if err := b.store.start(k, made, int(max(0, r.ContentLength))); err != nil {
		return err
	}
	for _, name := range q.names {
		if err := b.send(r, name, made); err != nil {
			b.store.undo(k)
			return err
		}
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// send sends the tar of a template to the node. A build may reach what the server allows. If that is
// nothing, a build that needs it fails with its own error.
func (b *Builder) send(r *http.Request, name string, p plan) error {
	p.spec.BuildNetwork = &protocol.Network{}
	err := b.sendTar(r, name, p)
	if err != nil && fault.PublicOf(err).Cause == fault.CauseEgress {
		p.spec.BuildNetwork = nil
		err = b.sendTar(r, name, p)
	}
	return err
}

func (b *Builder) sendTar(r *http.Request, name string, p plan) error {
	who := surface.CallOf(r).Who
	in, out := io.Pipe()
	defer in.Close()
	go func() {
		_ = out.CloseWithError(p.write(out, func(hash string) ([]byte, bool) {
			return b.store.archive(key{who.Tenant, hash})
		}))
	}()
	return b.cfg.Upload(r.Context(), who, protocol.OpTemplateBuild,
		protocol.TemplateRef{Name: name}, in, new(protocol.Template))
}

// fileLink says where the files of a COPY step are uploaded to.
type fileLink struct {
	Present bool   `json:"present"`
	URL     string `json:"url"`
}

// link answers with the address for the files with a hash. The address has a token, because clients
// send no credentials to it.
func (b *Builder) link(w http.ResponseWriter, r *http.Request) error {
	hash, tenant := r.PathValue("hash"), surface.CallOf(r).Who.Tenant
	if !validHash(hash) {
		return invalid("hash", "%.80q is not a hash", hash)
	}
	token, err := b.cfg.Tokens(purposeFiles, tenant+"\x00"+hash)
	if err != nil {
		return err
	}
	_, present := b.store.archive(key{tenant, hash})
	return surface.WriteJSON(w, http.StatusCreated, fileLink{
		Present: present,
		URL: fmt.Sprintf("%s/templates/files/%s/%s/%s", surface.BaseURL(r),
			hex.EncodeToString([]byte(tenant)), hash, token),
	})
}

// upload keeps the files with a hash.
func (b *Builder) upload(w http.ResponseWriter, r *http.Request) error {
	tenant, err := hex.DecodeString(r.PathValue("tenant"))
	hash := r.PathValue("hash")
	if err != nil || !validHash(hash) {
		return fault.New(fault.NotFound, "e2b.template", "there is no such address")
	}
	token, err := b.cfg.Tokens(purposeFiles, string(tenant)+"\x00"+hash)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(r.PathValue("token")), []byte(token)) != 1 {
		return fault.New(fault.NotFound, "e2b.template", "there is no such address")
	}
	content, err := io.ReadAll(io.LimitReader(r.Body, maxArchive+1))
	switch {
	case err != nil:
		return err
	case len(content) > maxArchive:
		return fault.New(fault.TooLarge, "e2b.template", "the files of a COPY have at most %d bytes",
			maxArchive)
	}
	if err := b.store.put(key{string(tenant), hash}, content); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// tagRequest is the body of requests that change tags.
type tagRequest struct {
	Target string   `json:"target"`
	Name   string   `json:"name"`
	Tags   []string `json:"tags"`
}

// assignTags gives tags to a build. Each tag is a native template, so that a new tag builds the same
// steps again, for as long as this gateway keeps them.
func (b *Builder) assignTags(w http.ResponseWriter, r *http.Request) error {
	var p tagRequest
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	t, err := b.template(r, Native(p.Target))
	if err != nil {
		return err
	}
	if len(p.Tags) == 0 {
		return invalid("tags", "the request names no tags")
	}
	base, _ := Name(t.Name)
	_, tags, err := parseName(base+":"+p.Tags[0], p.Tags[1:])
	if err != nil {
		return err
	}
	q, known := b.store.build(key{surface.CallOf(r).Who.Tenant, BuildID(t)})
	for _, tag := range tags {
		name := Native(base + ":" + tag)
		other, err := b.template(r, name)
		switch {
		case err != nil && !fault.Is(err, fault.NotFound):
			return err
		case err == nil && BuildID(other) == BuildID(t):
			continue
		case !known || !q.started:
			return unsupported("tags", "this gateway has forgotten the steps of the build; "+
				"build the template again with the tag %s", tag)
		}
		if err := b.send(r, name, q.plan); err != nil {
			return err
		}
	}
	return surface.WriteJSON(w, http.StatusCreated, struct {
		Build string   `json:"buildID"`
		Tags  []string `json:"tags"`
	}{BuildID(t), tags})
}

// removeTags deletes the native templates of tags.
func (b *Builder) removeTags(w http.ResponseWriter, r *http.Request) error {
	var p tagRequest
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	if len(p.Tags) == 0 {
		return invalid("tags", "the request names no tags")
	}
	name, tags, err := parseName(p.Name+":"+p.Tags[0], p.Tags[1:])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), max(b.cfg.Call, protocol.SlowLimit))
	defer cancel()
	for _, tag := range tags {
		if err := b.cfg.Node.Call(ctx, surface.CallOf(r).Who, protocol.OpTemplateDelete,
			protocol.TemplateRef{Name: Native(name + ":" + tag)}, nil); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// template returns a native template.
func (b *Builder) template(r *http.Request, name string) (t protocol.Template, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), b.cfg.Call)
	defer cancel()
	err = b.cfg.Node.Call(ctx, surface.CallOf(r).Who, protocol.OpTemplateGet,
		protocol.TemplateRef{Name: name}, &t)
	return t, err
}

// number returns a parameter of the query that is a number from 0 to most; def without it.
func number(r *http.Request, name string, def, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, invalid(name, "it is a number from 0 to %d", most)
	}
	return n, nil
}
