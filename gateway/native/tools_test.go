package native

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestTools: the document for tool servers is short, has no references, and describes and types each
// parameter. Its operations are those of the whole document.
func TestTools(t *testing.T) {
	whole, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	text, err := Tools(whole)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 8<<10 || strings.Contains(string(text), "$ref") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	type schema struct {
		Type        any
		Description string
		Properties  map[string]schema
		Required    []string
	}
	var all struct{ Paths map[string]map[string]any }
	var d struct {
		Paths map[string]map[string]struct {
			ID         string `json:"operationId"`
			Parameters []struct {
				Name, Description string
				Schema            schema
			}
			RequestBody struct {
				Content map[string]struct{ Schema schema }
			}
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(whole, &all) // it is one
	fields := map[string][]string{}
	for path, item := range d.Paths {
		for method, o := range item {
			native := strings.ReplaceAll(path, "{session}", "{id}")
			if all.Paths[native][method] == nil {
				t.Errorf("there is no route %s %s", method, native)
			}
			for _, p := range o.Parameters {
				if p.Schema.Type == nil || p.Description == "" {
					t.Errorf("%s: %s has no type or no description", o.ID, p.Name)
				}
				fields[o.ID] = append(fields[o.ID], p.Name)
			}
			body := o.RequestBody.Content["application/json"].Schema
			for name, p := range body.Properties {
				if p.Type == nil || p.Description == "" {
					t.Errorf("%s: %s has no type or no description", o.ID, name)
				}
				fields[o.ID] = append(fields[o.ID], name)
			}
			for _, name := range body.Required {
				if _, ok := body.Properties[name]; !ok {
					t.Errorf("%s requires %s, which it does not describe", o.ID, name)
				}
			}
		}
	}
	for _, x := range tools() {
		got := fields[x.name]
		if got == nil {
			t.Errorf("there is no tool %s", x.name)
		}
		for name := range x.fields {
			if !slices.Contains(got, name) {
				t.Errorf("%s has no field %s", x.name, name)
			}
		}
	}
}
