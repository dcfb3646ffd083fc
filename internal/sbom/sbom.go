// Package sbom lists the parts of Sandgate as an SPDX 2.3 document: the Go modules that binaries
// contain, the npm packages of package-lock.json, and the Debian packages of a sandbox image.
package sbom

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Module is one Go module, with its checksum as go.sum has it.
type Module struct{ Path, Version, Sum string }

// Input has the parts that a document lists.
type Input struct {
	// Name and Version are those of the product.
	Name, Version string
	// Created is the time that the document states.
	Created time.Time
	// Binaries has the modules of each program by its name.
	Binaries map[string][]Module
	// Lock is the content of package-lock.json; nil for none.
	Lock []byte
	// Image is the manifest of a sandbox image, the file FILE.json beside it; nil for none.
	Image []byte
}

// Document is an SPDX document.
type Document struct {
	Version     string         `json:"spdxVersion"`
	License     string         `json:"dataLicense"`
	ID          string         `json:"SPDXID"`
	Name        string         `json:"name"`
	Namespace   string         `json:"documentNamespace"`
	Creation    Creation       `json:"creationInfo"`
	Packages    []Package      `json:"packages"`
	Relations   []Relationship `json:"relationships"`
	DescribesID []string       `json:"documentDescribes"`
}

// Creation states who made a document, and when.
type Creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// Package is one part of the product.
type Package struct {
	ID        string      `json:"SPDXID"`
	Name      string      `json:"name"`
	Version   string      `json:"versionInfo,omitempty"`
	Location  string      `json:"downloadLocation"`
	Analyzed  bool        `json:"filesAnalyzed"`
	Checksums []Checksum  `json:"checksums,omitempty"`
	Source    string      `json:"sourceInfo,omitempty"`
	Refs      []Reference `json:"externalRefs,omitempty"`
}

// Checksum is the checksum of a package's file, in hexadecimal digits.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

// Reference names a package for other tools.
type Reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

// Relationship relates two elements of a document.
type Relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const none = "NOASSERTION"

// Make returns the document of an input. The same input gives the same document. Errors:
// InvalidArgument for a lock file or a manifest that cannot be read.
func Make(in Input) (*Document, error) {
	d := &Document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: in.Name + "-" + in.Version,
		Creation: Creation{
			Created:  in.Created.UTC().Format(time.RFC3339),
			Creators: []string{"Tool: sandgate-sbom"},
		},
	}
	for _, name := range slices.Sorted(maps.Keys(in.Binaries)) {
		d.program(name, in.Version, in.Binaries[name])
	}
	if err := d.npm(in.Version, in.Lock); err != nil {
		return nil, err
	}
	if err := d.image(in.Image); err != nil {
		return nil, err
	}
	content, err := json.Marshal(d)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "sbom.make", err)
	}
	sum := sha256.Sum256(content)
	d.Namespace = "https://github.com/sandgate/sandgate/sbom/" + hex.EncodeToString(sum[:])
	return d, nil
}

// root adds a part that is delivered.
func (d *Document) root(name, version string, sums ...Checksum) string {
	id := identifier("part", name, version)
	d.Packages = append(d.Packages, Package{
		ID: id, Name: name, Version: version, Location: none, Checksums: sums,
	})
	d.DescribesID = append(d.DescribesID, id)
	d.Relations = append(d.Relations, Relationship{d.ID, "DESCRIBES", id})
	return id
}

// add adds a package of a part. A package that several parts have is listed once.
func (d *Document) add(p Package, root, relation string) {
	if !slices.ContainsFunc(d.Packages, func(q Package) bool { return q.ID == p.ID }) {
		d.Packages = append(d.Packages, p)
	}
	if relation == "CONTAINS" {
		d.Relations = append(d.Relations, Relationship{root, relation, p.ID})
		return
	}
	d.Relations = append(d.Relations, Relationship{p.ID, relation, root})
}

func (d *Document) program(name, version string, modules []Module) {
	root := d.root(name, version)
	for _, m := range modules {
		p := Package{
			ID: identifier("go", m.Path, m.Version), Name: m.Path, Version: m.Version, Location: none,
			Refs: purl("golang", m.Path, m.Version, ""),
		}
		if m.Sum != "" {
			p.Source = "go.sum: " + m.Sum
		}
		d.add(p, root, "CONTAINS")
	}
}

// npm adds the packages of a lock file. Those that only builds and tests use are marked.
func (d *Document) npm(version string, lock []byte) error {
	const op = "sbom.npm"
	if lock == nil {
		return nil
	}
	var file struct {
		Packages map[string]struct {
			Name, Version, Integrity string
			Dev, Link                bool
		}
	}
	if err := json.Unmarshal(lock, &file); err != nil || len(file.Packages) == 0 {
		return fault.Invalid(op, "lock", "package-lock.json has no packages: %v", err)
	}
	root := d.root("web", version)
	for _, at := range slices.Sorted(maps.Keys(file.Packages)) {
		p := file.Packages[at]
		_, name, module := strings.Cut(at, "node_modules/")
		if !module || p.Link {
			continue // a package of this repository
		}
		if i := strings.LastIndex(name, "node_modules/"); i >= 0 {
			name = name[i+len("node_modules/"):]
		}
		if p.Name != "" {
			name = p.Name // it is installed under another one
		}
		q := Package{
			ID: identifier("npm", name, p.Version), Name: name, Version: p.Version, Location: none,
			Refs: purl("npm", name, p.Version, ""),
		}
		for sum := range strings.FieldsSeq(p.Integrity) {
			raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "sha512-"))
			if err != nil || len(raw) != 64 {
				return fault.Invalid(op, "lock", "%s has the checksum %q", name, sum)
			}
			q.Checksums = append(q.Checksums, Checksum{"SHA512", hex.EncodeToString(raw)})
		}
		relation := "DEPENDENCY_OF"
		if p.Dev {
			relation = "DEV_DEPENDENCY_OF"
		}
		d.add(q, root, relation)
	}
	return nil
}

// image adds the Debian packages of an image, and the versions of the programs that do not come from
// Debian.
func (d *Document) image(manifest []byte) error {
	if manifest == nil {
		return nil
	}
	var m struct {
		ID, SHA256                 string
		Packages, Hashes, Versions map[string]string
	}
	if err := json.Unmarshal(manifest, &m); err != nil || len(m.Packages) == 0 {
		return fault.Invalid("sbom.image", "image", "the manifest has no packages: %v", err)
	}
	root := d.root("image", m.ID, Checksum{"SHA256", m.SHA256})
	for _, name := range slices.Sorted(maps.Keys(m.Packages)) {
		v := m.Packages[name]
		p := Package{
			ID: identifier("deb", name, v), Name: name, Version: v, Location: none,
			Refs: purl("deb", "debian/"+name, v, "?distro=trixie"),
		}
		if sum := m.Hashes[name]; sum != "" {
			p.Checksums = []Checksum{{"SHA256", sum}}
		}
		d.add(p, root, "CONTAINS")
	}
	for _, name := range []string{"go", "node", "npm"} { // npm's registry and Go's module proxy
		if v := m.Versions[name]; v != "" {
			d.add(Package{
				ID: identifier("tool", name, v), Name: name, Version: v, Location: none,
			}, root, "CONTAINS")
		}
	}
	return nil
}

// purl returns the package URL of a package.
func purl(kind, name, version, more string) []Reference {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	at := strings.ReplaceAll(strings.Join(parts, "/"), "@", "%40") + "@" +
		strings.NewReplacer("+", "%2B", ":", "%3A").Replace(url.PathEscape(version))
	return []Reference{{"PACKAGE-MANAGER", "purl", "pkg:" + kind + "/" + at + more}}
}

// identifier returns an id of SPDX, which has letters, digits, dots and hyphens only. A hash keeps
// names apart that differ in other characters.
func identifier(kind, name, version string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + name + "\x00" + version))
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, name)
	return fmt.Sprintf("SPDXRef-%s-%s-%x", kind, plain, sum[:6])
}
