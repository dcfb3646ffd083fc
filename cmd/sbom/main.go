// Command sbom writes the SPDX document of a build: sbom VERSION TIME LOCK IMAGE-MANIFEST BINARY...
// TIME is in seconds since 1970. LOCK or IMAGE-MANIFEST may be "-" for none.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/internal/sbom"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 5 {
		return errors.New("it needs VERSION TIME LOCK IMAGE-MANIFEST BINARY")
	}
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	in := sbom.Input{
		Name: "sandgate", Version: args[0], Created: time.Unix(seconds, 0),
		Binaries: map[string][]sbom.Module{},
	}
	for i, to := range []*[]byte{&in.Lock, &in.Image} {
		if name := args[2+i]; name != "-" {
			if *to, err = os.ReadFile(name); err != nil {
				return err
			}
		}
	}
	for _, name := range args[4:] {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return err
		}
		modules := []sbom.Module{{Path: "std", Version: info.GoVersion}}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules = append(modules, sbom.Module{Path: m.Path, Version: m.Version, Sum: m.Sum})
		}
		in.Binaries[filepath.Base(name)] = modules
	}
	d, err := sbom.Make(in)
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(d)
}
