package noderouter

import (
	"slices"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// storedTemplates answers template.stored. mu is held.
func (k *testNode) storedTemplates(name string) (l protocol.TemplateList, err error) {
	if k.stored == nil {
		return l, fault.New(fault.Unsupported, "test", "templates are not stored")
	}
	if k.storeErr != nil {
		return l, k.storeErr
	}
	for _, t := range *k.stored {
		if name == "" || name == t.Name {
			l.Templates = append(l.Templates, t)
		}
	}
	return l, nil
}

// TestStoredTemplates: a list has each template once, with the builds and pools of its current
// definition. A template that only one node has is listed; a copy of a deleted one is not. Sessions
// of a stored template can be on each node, also when the nodes with copies are away.
func TestStoredTemplates(t *testing.T) {
	r, all := startNodes(t, "a", "b", "c")
	building := "building"
	stored := []protocol.Template{
		{Name: "one", CreatedMS: 2, State: building, Stored: true},
		{Name: "two", CreatedMS: 2, State: "ready", Stored: true, Log: "two is built"},
	}
	for i, own := range []protocol.Template{
		{
			Name: "one", CreatedMS: 2, State: "ready", Ready: 1, Size: 2, Stored: true,
			Log: "one is built",
		},
		{Name: "one", CreatedMS: 1, State: "failed", Ready: 7, Stored: true},
		{Name: "mine", CreatedMS: 1, State: building},
	} {
		all[i].mu.Lock()
		all[i].stored, all[i].template = &stored, own
		all[i].mu.Unlock()
	}
	list := func() []protocol.Template {
		t.Helper()
		var l protocol.TemplateList
		if err := r.Call(within(t), alice, protocol.OpTemplateList, struct{}{}, &l); err != nil {
			t.Fatal(err)
		}
		return l.Templates
	}
	var names []string
	for _, x := range list() {
		names = append(names, x.Name)
		if x.Name == "one" && (x.Ready != 1 || x.Size != 2 || x.State != "ready") {
			t.Errorf("the template of two definitions is %+v", x)
		}
	}
	if !slices.Equal(names, []string{"mine", "one", "two"}) {
		t.Fatalf("listed %v", names)
	}
	get := func(name string) (x protocol.Template, err error) {
		err = r.Call(within(t), alice, protocol.OpTemplateGet, protocol.TemplateRef{Name: name}, &x)
		return x, err
	}
	for name, log := range map[string]string{"one": "one is built", "two": "two is built", "mine": ""} {
		if x, err := get(name); err != nil || x.Log != log {
			t.Errorf("%s is %+v, %v", name, x, err)
		}
	}
	if got, err := createSession(t, r, "mine"); err != nil || got != "c" {
		t.Errorf("a session of a template that only one node has is on %s: %v", got, err)
	}
	if got, err := createSession(t, r, "one"); err != nil || got != "a" {
		t.Errorf("a session of a template with a copy is on %s: %v", got, err)
	}
	all[1].mu.Lock()
	all[1].volumes["data"] = true
	all[1].mu.Unlock()
	if got, err := createSession(t, r, "one", "data"); err != nil || got != "b" {
		t.Errorf("a session of a stored template with a volume is on %s: %v", got, err)
	}

	away := func(err error) {
		for _, k := range all {
			k.mu.Lock()
			k.storeErr = err
			k.mu.Unlock()
		}
	}
	away(fault.New(fault.Unavailable, "test", "the blob store cannot be reached"))
	if got, err := createSession(t, r, "one"); err != nil || got == "c" {
		t.Errorf("without the store a session of a template with copies is on %s: %v", got, err)
	}
	if _, err := createSession(t, r, "two"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without the store a session of a template without copies: %v", err)
	}
	away(nil)

	_ = all[0].ln.Close()
	r.placer.Avoid(all[0].id)
	for _, name := range []string{"one", "two"} {
		if got, err := createSession(t, r, name); err != nil || got == "" {
			t.Errorf("a session of %s without its node: %q, %v", name, got, err)
		}
	}
	for i := range stored {
		stored[i].Name = "other" // they were deleted
	}
	if _, err := get("one"); !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable) {
		t.Errorf("a deleted template: %v", err)
	}
	if x, err := get("mine"); err != nil || x.Stored {
		t.Errorf("a template that only one node has: %+v, %v", x, err)
	}
}
