package control

import (
	"net/http"
	"strings"

	"github.com/sandgate/sandgate/gateway/e2b/templates"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// catalog has the handlers of templates and volumes.
type catalog struct{ *Plane }

// templateBody is a template in a list.
type templateBody struct {
	templateNames
	BuildID     string  `json:"buildID"`
	Status      string  `json:"buildStatus"`
	BuildCount  int     `json:"buildCount"`
	CPUs        int     `json:"cpuCount"`
	MemoryMB    int64   `json:"memoryMB"`
	DiskMB      int64   `json:"diskSizeMB"`
	EnvdVersion string  `json:"envdVersion"`
	CreatedBy   *string `json:"createdBy"`
}

// templateNames are the fields that both forms of a template have.
type templateNames struct {
	ID          string   `json:"templateID"`
	Names       []string `json:"names"`
	Aliases     []string `json:"aliases"`
	Public      bool     `json:"public"`
	Created     string   `json:"createdAt"`
	Updated     string   `json:"updatedAt"`
	LastSpawned *string  `json:"lastSpawnedAt"`
	Spawned     int      `json:"spawnCount"`
}

// templateBuilds is a template with its builds. Only the last build is kept.
type templateBuilds struct {
	templateNames
	Builds []buildBody `json:"builds"`
}

// buildBody is a build of a template.
type buildBody struct {
	ID          string `json:"buildID"`
	Status      string `json:"status"`
	Created     string `json:"createdAt"`
	Updated     string `json:"updatedAt"`
	CPUs        int    `json:"cpuCount"`
	MemoryMB    int64  `json:"memoryMB"`
	DiskMB      int64  `json:"diskSizeMB"`
	EnvdVersion string `json:"envdVersion"`
}

// aliasBody is the result of a search for a template by its alias.
type aliasBody struct {
	ID     string `json:"templateID"`
	Public bool   `json:"public"`
}

// templateUpdate is the body of updateTemplate.
type templateUpdate struct {
	Public *bool `json:"public"`
}

// tagBody is a tag of a template.
type tagBody struct {
	Tag     string `json:"tag"`
	BuildID string `json:"buildID"`
	Created string `json:"createdAt"`
}

// ownName returns the name of a template of the caller's. Errors: PermissionDenied for those of the
// server.
func ownName(r *http.Request) (string, error) {
	name := templates.Native(templates.Param(r, "id"))
	if name == templateBase || name == templateCode {
		return "", fault.New(fault.PermissionDenied, "e2b.template",
			"the template %s belongs to the server", name)
	}
	return name, nil
}

// template returns a template of the caller's.
func (s catalog) template(r *http.Request, name string) (t protocol.Template, err error) {
	err = s.call(r, protocol.OpTemplateGet, protocol.TemplateRef{Name: name}, &t)
	return t, err
}

// templates answers with a page of the caller's templates, by name.
func (s catalog) templates(w http.ResponseWriter, r *http.Request) error {
	var list protocol.TemplateList
	if err := s.call(r, protocol.OpTemplateList, struct{}{}, &list); err != nil {
		return err
	}
	page, next, err := pageOf(r, list.Templates, func(t protocol.Template) string { return t.Name })
	if err != nil {
		return err
	}
	all := []templateBody{}
	for _, t := range page {
		b := buildOf(t)
		all = append(all, templateBody{
			templateNames: namesOf(t), BuildID: b.ID, Status: b.Status, BuildCount: 1, CPUs: b.CPUs,
			MemoryMB: b.MemoryMB, DiskMB: b.DiskMB, EnvdVersion: envdVersion,
		})
	}
	setNext(w, next)
	return surface.WriteJSON(w, http.StatusOK, all)
}

// getTemplate answers with one template and its build.
func (s catalog) getTemplate(w http.ResponseWriter, r *http.Request) error {
	name, err := ownName(r)
	if err != nil {
		return err
	}
	t, err := s.template(r, name)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, templateBuilds{namesOf(t), []buildBody{buildOf(t)}})
}

// alias answers whether a template exists.
func (s catalog) alias(w http.ResponseWriter, r *http.Request) error {
	name := templates.Native(templates.Param(r, "alias"))
	if name == templateBase || name == templateCode {
		return surface.WriteJSON(w, http.StatusOK, aliasBody{name, true})
	}
	t, err := s.template(r, name)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, aliasBody{ID: t.Name})
}

// updateTemplate accepts that a template stays private.
func (s catalog) updateTemplate(w http.ResponseWriter, r *http.Request) error {
	var p templateUpdate
	if err := decode(r, &p, false); err != nil {
		return err
	}
	name, err := ownName(r)
	if err != nil {
		return err
	}
	t, err := s.template(r, name)
	if err != nil {
		return err
	}
	if p.Public != nil && *p.Public {
		return unsupported("public", "templates belong to one tenant on this server")
	}
	return surface.WriteJSON(w, http.StatusOK, namesOf(t))
}

// deleteTemplate deletes a template or a snapshot.
func (s catalog) deleteTemplate(w http.ResponseWriter, r *http.Request) error {
	name, err := ownName(r)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(name, snapshotID) {
		err = s.call(r, protocol.OpTemplateDelete, protocol.TemplateRef{Name: name}, nil)
	}
	if strings.HasPrefix(name, snapshotID) || fault.Is(err, fault.NotFound) {
		err = s.call(r, protocol.OpSnapshotDel, protocol.SnapshotRef{Snapshot: name}, nil)
	}
	if err != nil {
		return err
	}
	return noContent(w)
}

// tags answers with the tags of a template.
func (s catalog) tags(w http.ResponseWriter, r *http.Request) error {
	name, err := ownName(r)
	if err != nil {
		return err
	}
	var list protocol.TemplateList
	if err := s.call(r, protocol.OpTemplateList, struct{}{}, &list); err != nil {
		return err
	}
	base, _ := templates.Name(name)
	all := []tagBody{}
	for _, one := range list.Templates {
		if name, tag := templates.Name(one.Name); name == base {
			all = append(all, tagBody{tag, templates.BuildID(one), stamp(one.CreatedMS)})
		}
	}
	if len(all) == 0 {
		return fault.New(fault.NotFound, "e2b.template", "there is no such template")
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

// namesOf returns the names of a template. A build with another tag than the default one is a
// template of its own.
func namesOf(t protocol.Template) templateNames {
	name, tag := templates.Name(t.Name)
	if ":"+tag != tagDefault {
		name += ":" + tag
	}
	return templateNames{
		ID: t.Name, Names: []string{name}, Aliases: []string{name},
		Created: stamp(t.CreatedMS), Updated: stamp(t.CreatedMS),
	}
}

// buildOf describes the build of a template.
func buildOf(t protocol.Template) buildBody {
	l := listed(protocol.Session{Limits: &t.Spec.Limits})
	return buildBody{
		ID: templates.BuildID(t), Status: templates.Status(t), Created: stamp(t.CreatedMS),
		Updated: stamp(t.CreatedMS),
		CPUs:    l.CPUs, MemoryMB: l.MemoryMB, DiskMB: l.DiskMB, EnvdVersion: envdVersion,
	}
}
