package oneshot

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Packages are the packages of Python that programs can import beside the standard library.
type Packages struct {
	Packages []Package `json:"packages"`
	// Modules are the names to import, sorted, without those that begin with an underscore.
	Modules []string `json:"modules"`
}

// Package is one package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// packagesTimeout is how long the list of packages may take, and maxPackages its largest size in
// bytes.
const (
	packagesTimeout = 30 * time.Second
	maxPackages     = 4 << 20
)

// listPackages is a program whose function main returns the packages.
const listPackages = `def main():
    import pkgutil
    import sys
    from importlib import metadata

    found = {d.metadata["Name"]: d.version for d in metadata.distributions()}
    names = {m.name for m in pkgutil.iter_modules()} - sys.stdlib_module_names
    return {
        "packages": [{"name": n, "version": found[n]} for n in sorted(found, key=str.lower)],
        "modules": sorted(n for n in names if n.isidentifier() and not n.startswith("_")),
    }
`

// Packages lists the packages of Python that the programs of p can import. Only Who, Surface and
// Settings of p matter.
func (r *Runner) Packages(ctx context.Context, p Program) (Packages, error) {
	const op = "oneshot.packages"
	p.Language, p.Code, p.MaxOutput = Python, listPackages, maxPackages
	p.Offline, p.Files = true, nil
	p.Call = &Call{Helpers: "def call(main, arguments):\n    return main()\n"}
	p.Settings.Timeout = packagesTimeout
	var list Packages
	o, err := r.Run(ctx, p)
	if err != nil {
		return list, err
	}
	if o.Status != OK || json.Unmarshal(o.Value, &list) != nil {
		return list, fault.New(fault.Unavailable, op, "the packages could not be listed: %s", o.Message)
	}
	return list, nil
}
