package oneshot

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Package is a package of Python that programs can import.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Modules are the names to import, without those that begin with an underscore.
	Modules []string `json:"modules"`
}

// packagesTimeout is how long the list of packages may take, and maxPackages its largest size in
// bytes.
const (
	packagesTimeout = 30 * time.Second
	maxPackages     = 4 << 20
)

// listPackages is a program whose function main returns the packages.
const listPackages = `def main():
    from importlib import metadata

    modules = {}
    for module, owners in metadata.packages_distributions().items():
        if module.isidentifier() and not module.startswith("_"):
            for owner in owners:
                modules.setdefault(owner, set()).add(module)
    found = {d.metadata["Name"]: d.version for d in metadata.distributions()}
    return [
        {"name": n, "version": found[n], "modules": sorted(modules.get(n, ()))}
        for n in sorted(found, key=str.lower)
    ]
`

// Packages lists the packages of Python that the programs of p can import. Only Who, Surface and
// Settings of p matter.
func (r *Runner) Packages(ctx context.Context, p Program) ([]Package, error) {
	const op = "oneshot.packages"
	p.Language, p.Code, p.MaxOutput = Python, listPackages, maxPackages
	p.Offline, p.Files = true, nil
	p.Call = &Call{Helpers: "def call(main, arguments):\n    return main()\n"}
	p.Settings.Timeout = packagesTimeout
	o, err := r.Run(ctx, p)
	if err != nil {
		return nil, err
	}
	var list []Package
	if o.Status != OK || json.Unmarshal(o.Value, &list) != nil {
		return nil, fault.New(fault.Unavailable, op, "the packages could not be listed: %s", o.Message)
	}
	return list, nil
}
