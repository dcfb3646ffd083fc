package sbom

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

func sample() Input {
	sum := strings.Repeat("A", 86) + "==" // 64 bytes of zero
	return Input{
		Name: "sandgate", Version: "v1", Created: time.Unix(1_767_225_600, 0),
		Binaries: map[string][]Module{
			"sandgate": {{"a.example/x", "v1.2.3", "h1:abc="}, {"a.example/y", "v2.0.0+incompatible", ""}},
			"agent":    {{"a.example/x", "v1.2.3", "h1:abc="}},
		},
		Lock: []byte(`{"packages":{"":{},"web/app":{"version":"1"},"node_modules/web":{"link":true},
"node_modules/@a/b":{"version":"1.0.0","integrity":"sha512-` + sum + `"},
"node_modules/c/node_modules/d":{"version":"2.0.0","dev":true,"integrity":"sha512-` + sum + `"},
"node_modules/alias":{"name":"real","version":"3.0.0"}}}`),
		Image: []byte(`{"id":"i","sha256":"00","versions":{"node":"24","git":"2"},
"packages":{"libc6":"2.41-12","git":"1:2.47.3-0+deb13u1"},"hashes":{"git":"0a1b"}}`),
	}
}

// TestDocument checks what a document lists, and the rules of SPDX that readers check.
func TestDocument(t *testing.T) {
	d, err := Make(sample())
	if err != nil {
		t.Fatal(err)
	}
	ids, refs := map[string]bool{d.ID: true}, map[string]bool{}
	form := regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	for _, p := range d.Packages {
		if ids[p.ID] || !form.MatchString(p.ID) || p.Location == "" {
			t.Errorf("the package %+v", p)
		}
		ids[p.ID] = true
		for _, r := range p.Refs {
			refs[r.Locator] = true
		}
	}
	for _, want := range []string{
		"pkg:golang/a.example/x@v1.2.3", "pkg:golang/a.example/y@v2.0.0%2Bincompatible",
		"pkg:npm/%40a/b@1.0.0", "pkg:npm/d@2.0.0", "pkg:npm/real@3.0.0",
		"pkg:deb/debian/git@1%3A2.47.3-0%2Bdeb13u1?distro=trixie",
		"pkg:deb/debian/libc6@2.41-12?distro=trixie",
	} {
		if !refs[want] {
			t.Errorf("%s is missing in %v", want, refs)
		}
	}
	if sums := d.Packages[indexOf(d, "git")].Checksums; len(sums) != 1 || sums[0].Value != "0a1b" {
		t.Errorf("the checksums of a Debian package are %v", sums)
	}
	contained := 0
	for _, r := range d.Relations {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%+v relates what is not listed", r)
		}
		if r.To == d.Packages[indexOf(d, "a.example/x")].ID && r.Type == "CONTAINS" {
			contained++
		}
	}
	if contained != 2 {
		t.Errorf("%d programs contain the module that two have", contained)
	}
	if len(d.DescribesID) != 4 || d.Creation.Created != "2026-01-01T00:00:00Z" {
		t.Errorf("%v, %+v", d.DescribesID, d.Creation)
	}
}

func indexOf(d *Document, name string) int {
	return slices.IndexFunc(d.Packages, func(p Package) bool { return p.Name == name })
}

// TestSameInputSameDocument: two documents of one build are equal, and those of two builds differ.
func TestSameInputSameDocument(t *testing.T) {
	first, err1 := Make(sample())
	second, err2 := Make(sample())
	if err1 != nil || err2 != nil || !reflect.DeepEqual(first, second) {
		t.Errorf("%v, %v, %+v, %+v", err1, err2, first, second)
	}
	changed := sample()
	changed.Image = []byte(`{"id":"j","sha256":"00","packages":{"libc6":"3"}}`)
	third, err := Make(changed)
	if err != nil || third.Namespace == first.Namespace {
		t.Errorf("%v: both have the name space %s", err, first.Namespace)
	}
	if text, err := json.Marshal(first); err != nil || !strings.Contains(string(text), `"SPDX-2.3"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestUnreadable: a document is not made of files that do not list packages.
func TestUnreadable(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"lock":     func(in *Input) { in.Lock = []byte(`{}`) },
		"checksum": func(in *Input) { in.Lock = []byte(`{"packages":{"node_modules/a":{"integrity":"x"}}}`) },
		"image":    func(in *Input) { in.Image = []byte(`{"packages":{}}`) },
	} {
		in := sample()
		change(&in)
		if _, err := Make(in); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
