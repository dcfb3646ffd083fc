package jupyter

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A notebook is what Jupyter calls a session: the path of a document and its kernel. It is kept in
// labels of a session, so that every gateway has it and it survives hibernation and moves. The
// labels are readable without the sandbox.
type notebook struct {
	// id is the part of its id that is unique in the session of its labels.
	id string
	// owner is the session that has its labels.
	owner protocol.Session
	notebookLabel
}

// notebookLabel is the JSON in the labels of a notebook.
type notebookLabel struct {
	// Kernel is the channel of the kernel, or the id of a kernel of another session.
	Kernel string `json:"k"`
	Path   string `json:"p"`
	Name   string `json:"n,omitempty"`
	Type   string `json:"t,omitempty"`
	// Free is set if the path is not one of a file of the session.
	Free bool `json:"f,omitempty"`
}

const (
	// labelNotebook begins the keys of the labels of notebooks. Further parts of a long value have
	// a number after the key.
	labelNotebook = "jupyter.n"
	// maxDocument is the largest path or name of a notebook, in bytes.
	maxDocument = 1024
	// defaultType is the type of a notebook whose request has none.
	defaultType = "notebook"
)

// notebookBody is a notebook as clients see it.
type notebookBody struct {
	ID       string       `json:"id"`
	Path     string       `json:"path"`
	Name     string       `json:"name"`
	Type     string       `json:"type"`
	Kernel   kernelBody   `json:"kernel"`
	Notebook documentBody `json:"notebook"`
}

// documentBody is the document of a notebook, for old clients.
type documentBody struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

// notebooksOf returns the notebooks of a session.
func notebooksOf(v protocol.Session) []notebook {
	var all []notebook
	for _, key := range slices.Sorted(maps.Keys(v.Labels)) {
		id, ok := strings.CutPrefix(key, labelNotebook)
		if !ok || strings.Contains(id, ".") {
			continue
		}
		text := v.Labels[key]
		for i := 1; v.Labels[key+"."+strconv.Itoa(i)] != ""; i++ {
			text += v.Labels[key+"."+strconv.Itoa(i)]
		}
		n := notebook{id: id, owner: v}
		if json.Unmarshal([]byte(text), &n.notebookLabel) == nil {
			all = append(all, n)
		}
	}
	return all
}

// store writes a notebook into labels, or removes it from them.
func (n *notebook) store(labels map[string]string, remove bool) {
	key := labelNotebook + n.id
	maps.DeleteFunc(labels, func(k, _ string) bool {
		return k == key || strings.HasPrefix(k, key+".")
	})
	if remove {
		return
	}
	text := string(encode(n.notebookLabel))
	for i := 0; text != ""; i++ {
		size := min(len(text), protocol.MaxLabelValue)
		for size < len(text) && !utf8.RuneStart(text[size]) {
			size--
		}
		k := key
		if i > 0 {
			k += "." + strconv.Itoa(i)
		}
		labels[k], text = text[:size], text[size:]
	}
}

// encode returns the JSON of a value that has one, without escaping HTML.
func encode(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // structs of texts
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

func (n *notebook) clientID() string { return kernelID(n.owner.ID, "n"+n.id) }

// kernelID returns the id of the notebook's kernel.
func (n *notebook) kernelID() string {
	if strings.Contains(n.Kernel, "-") {
		return n.Kernel
	}
	return kernelID(n.owner.ID, n.Kernel)
}

// bind sets the kernel of the notebook.
func (n *notebook) bind(k *kernel) {
	n.Kernel = k.channel.ID
	if k.session != n.owner.ID {
		n.Kernel = k.id()
	}
}

// pathAt returns the path of the notebook at a server.
func (n *notebook) pathAt(p *place) string {
	if n.Free || p.session != "" || n.owner.Name == homeName(p.who) {
		return n.Path
	}
	return n.owner.ID + "/" + n.Path
}

// setPath sets the path that the notebook has at a server.
func (n *notebook) setPath(p *place, path string) {
	n.Path, n.Free = path, false
	if p.session != "" || n.owner.Name == homeName(p.who) {
		return
	}
	inner, ok := strings.CutPrefix(path, n.owner.ID+"/")
	n.Path, n.Free = inner, !ok
}

func (s notebookAPI) notebookBody(p *place, n *notebook, k *kernel) notebookBody {
	path := n.pathAt(p)
	return notebookBody{
		ID: n.clientID(), Path: path, Name: n.Name, Type: n.Type, Kernel: s.body(k),
		Notebook: documentBody{path, n.Name},
	}
}

// notebooks returns the notebooks of a server whose kernels exist, and the kernels by their ids. The
// oldest session is first.
func (s notebookAPI) notebooks(r *http.Request) ([]notebook, map[string]*kernel, error) {
	sessions, err := s.sessions(r)
	if err != nil {
		return nil, nil, err
	}
	kernels := map[string]*kernel{}
	var all []notebook
	for _, v := range slices.Backward(sessions) {
		for _, k := range kernelsOf(v) {
			kernels[k.id()] = &k
		}
		all = append(all, notebooksOf(v)...)
	}
	return slices.DeleteFunc(all, func(n notebook) bool { return kernels[n.kernelID()] == nil }),
		kernels, nil
}

func (s notebookAPI) listNotebooks(w http.ResponseWriter, r *http.Request) error {
	all, kernels, err := s.notebooks(r)
	if err != nil {
		return err
	}
	bodies := []notebookBody{}
	for _, n := range all {
		bodies = append(bodies, s.notebookBody(placed(r), &n, kernels[n.kernelID()]))
	}
	return surface.WriteJSON(w, http.StatusOK, bodies)
}

// findNotebook returns the notebook with an id. Errors: NotFound.
func (s notebookAPI) findNotebook(r *http.Request, id string) (*notebook, error) {
	missing := fault.New(fault.NotFound, "jupyter.notebook", "there is no such session")
	session, rest, ok := parseID(id)
	if p := placed(r); !ok || rest[0] != 'n' || p.session != "" && p.session != session {
		return nil, missing
	}
	var v protocol.Session
	err := s.call(r, protocol.OpSessionGet, protocol.SessionRef{Session: session}, &v)
	if fault.Is(err, fault.NotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	for _, n := range notebooksOf(v) {
		if n.id == rest[1:] {
			return &n, nil
		}
	}
	return nil, missing
}

func (s notebookAPI) getNotebook(w http.ResponseWriter, r *http.Request) error {
	n, err := s.findNotebook(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	k, err := s.find(r, n.kernelID())
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, s.notebookBody(placed(r), n, k))
}

// notebookRequest asks for a notebook, or changes one.
type notebookRequest struct {
	Path   *string `json:"path"`
	Name   *string `json:"name"`
	Type   *string `json:"type"`
	Kernel struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"kernel"`
	Notebook *documentBody `json:"notebook"` // old clients send it
}

func decodeNotebook(r *http.Request) (notebookRequest, error) {
	var p notebookRequest
	if err := decode(r, &p); err != nil {
		return p, err
	}
	if p.Path == nil && p.Notebook != nil {
		p.Path = &p.Notebook.Path
	}
	for name, v := range map[string]*string{"path": p.Path, "name": p.Name, "type": p.Type} {
		if v != nil && (len(*v) > maxDocument || !utf8.ValidString(*v) || hasControl(*v)) {
			return p, fault.Invalid("jupyter.notebook", name,
				"a %s is text of at most %d bytes without control characters", name, maxDocument)
		}
	}
	if p.Path != nil && strings.Trim(*p.Path, "/") == "" {
		return p, fault.Invalid("jupyter.notebook", "path", "the path is empty")
	}
	return p, nil
}

func hasControl(v string) bool {
	return strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// openNotebook starts a kernel for a document, or returns the notebook that has its path.
func (s notebookAPI) openNotebook(w http.ResponseWriter, r *http.Request) error {
	p, err := decodeNotebook(r)
	if err != nil {
		return err
	}
	if p.Path == nil {
		return fault.Invalid("jupyter.notebook", "path", "the path is missing")
	}
	at := placed(r)
	unlock, err := s.locks.lock(r.Context(),
		strings.Join([]string{at.who.Tenant, at.session, *p.Path}, "\x00"))
	if err != nil {
		return err
	}
	defer unlock()
	all, kernels, err := s.notebooks(r)
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.pathAt(at) == *p.Path {
			return s.answerNotebook(w, r, http.StatusCreated, &n, kernels[n.kernelID()])
		}
	}
	var k *kernel
	if p.Kernel.ID != "" {
		k, err = s.find(r, p.Kernel.ID)
	} else {
		k, err = s.start(r, kernelRequest{Name: p.Kernel.Name, Path: *p.Path})
	}
	if err != nil {
		return err
	}
	n, err := s.newNotebook(r, k, p)
	if err != nil {
		if p.Kernel.ID == "" {
			_ = s.endKernel(r, k) // the first error counts
		}
		return err
	}
	return s.answerNotebook(w, r, http.StatusCreated, n, k)
}

// newNotebook stores a notebook of a request.
func (s notebookAPI) newNotebook(r *http.Request, k *kernel, p notebookRequest) (*notebook, error) {
	n := &notebook{id: strings.ToLower(rand.Text()[:10])}
	ref := protocol.SessionRef{Session: k.session}
	if err := s.call(r, protocol.OpSessionGet, ref, &n.owner); err != nil {
		return nil, err
	}
	n.Type = defaultType
	n.setPath(placed(r), *p.Path)
	n.bind(k)
	n.takeOver(p)
	return n, s.relabel(r, k.session, func(labels map[string]string) { n.store(labels, false) })
}

// takeOver takes over the name and the type of a request.
func (n *notebook) takeOver(p notebookRequest) {
	if p.Name != nil {
		n.Name = *p.Name
	}
	if p.Type != nil && *p.Type != "" {
		n.Type = *p.Type
	}
}

func (s notebookAPI) answerNotebook(w http.ResponseWriter, r *http.Request, status int, n *notebook,
	k *kernel,
) error {
	b := s.notebookBody(placed(r), n, k)
	if status == http.StatusCreated {
		w.Header().Set("Location", placed(r).base+"/api/sessions/"+b.ID)
	}
	return surface.WriteJSON(w, status, b)
}

// changeNotebook renames a notebook or gives it another kernel, after which its old kernel ends.
func (s notebookAPI) changeNotebook(w http.ResponseWriter, r *http.Request) error {
	p, err := decodeNotebook(r)
	if err != nil {
		return err
	}
	n, err := s.findNotebook(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	old, err := s.find(r, n.kernelID())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	k := old
	switch {
	case p.Kernel.ID != "" && p.Kernel.ID != n.kernelID():
		k, err = s.find(r, p.Kernel.ID)
	case p.Kernel.ID == "" && p.Kernel.Name != "":
		k, err = s.startAnother(r, n, p.Kernel.Name)
	}
	if err != nil {
		return err
	}
	if p.Path != nil {
		n.setPath(placed(r), *p.Path)
	}
	n.takeOver(p)
	n.bind(k)
	err = s.relabel(r, n.owner.ID, func(labels map[string]string) { n.store(labels, false) })
	if err != nil {
		return err
	}
	if old != nil && old.id() != k.id() {
		if err := s.shutDown(r, old); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return s.answerNotebook(w, r, http.StatusOK, n, k)
}

// startAnother starts a kernel for a notebook, in the session that has its labels.
func (s notebookAPI) startAnother(r *http.Request, n *notebook, name string) (*kernel, error) {
	l, err := s.languageOf(r.Context(), name)
	if err != nil {
		return nil, err
	}
	folder := ""
	if !n.Free {
		if folder, err = s.workFolder(r, n.owner.ID, n.Path); err != nil {
			return nil, err
		}
	}
	k, err := s.startIn(r, n.owner.ID, l.Name, folder)
	if err != nil {
		s.kernelEvent(r, "start", n.owner.ID, "", name, err)
		return nil, err
	}
	s.eventOf(r, "start", k, nil)
	return k, nil
}

// deleteNotebook ends a notebook and its kernel. Errors: SandboxLost, which clients take for a kernel
// that had already ended.
func (s notebookAPI) deleteNotebook(w http.ResponseWriter, r *http.Request) error {
	n, err := s.findNotebook(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	k, missing := s.find(r, n.kernelID())
	if missing != nil && !fault.Is(missing, fault.NotFound) {
		return missing
	}
	err = s.relabel(r, n.owner.ID, func(labels map[string]string) { n.store(labels, true) })
	if err == nil && k != nil {
		err = s.endKernel(r, k)
	}
	if err == nil && (k == nil || k.session != n.owner.ID) {
		err = s.endUnused(r, n.owner.ID)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if k == nil {
		return fault.New(fault.KernelDied, "jupyter.notebook", "its kernel had already ended")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// relabel changes the labels of a session. It makes the change again if another gateway has changed
// them at the same time.
func (s *Surface) relabel(r *http.Request, session string, change func(map[string]string)) error {
	unlock, err := s.locks.lock(r.Context(), session)
	if err != nil {
		return err
	}
	defer unlock()
	for range 4 {
		var v protocol.Session
		ref := protocol.SessionRef{Session: session}
		if err := s.call(r, protocol.OpSessionGet, ref, &v); err != nil {
			return err
		}
		labels := maps.Clone(v.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		change(labels)
		if maps.Equal(labels, v.Labels) {
			return nil
		}
		for _, n := range notebooksOf(v) { // those whose kernel has ended make room
			gone := !strings.Contains(n.Kernel, "-") && !hasKernel(v, n.Kernel)
			if gone && len(labels) > protocol.MaxLabels {
				n.store(labels, true)
			}
		}
		if len(labels) > protocol.MaxLabels {
			return fault.New(fault.Exhausted, "jupyter.notebook",
				"a session has at most %d labels, and too many notebooks use them",
				protocol.MaxLabels).For(fault.CauseLimit)
		}
		err := s.call(r, protocol.OpSessionUpdate,
			protocol.SessionUpdate{Session: session, Labels: &labels}, nil)
		if err != nil {
			return err
		}
	}
	return fault.New(fault.Unavailable, "jupyter.notebook",
		"other requests change the labels of this session")
}

func hasKernel(v protocol.Session, channel string) bool {
	return slices.ContainsFunc(kernelsOf(v), func(k kernel) bool { return k.channel.ID == channel })
}
