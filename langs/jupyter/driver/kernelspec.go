package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernelspec is the content of kernel.json.
type kernelspec struct {
	Argv      []string          `json:"argv"`
	Display   string            `json:"display_name"`
	Language  string            `json:"language"`
	Interrupt string            `json:"interrupt_mode"`
	Env       map[string]string `json:"env"`

	dir string
}

// readSpec reads the kernelspec in a folder.
func readSpec(dir string) (kernelspec, error) {
	var spec kernelspec
	text, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err == nil && len(spec.Argv) == 0 {
		err = fmt.Errorf("%s has a kernel.json without argv", dir)
	}
	spec.dir = dir
	return spec, err
}

// command returns the arguments and the environment of the kernel.
func (k kernelspec) command(connection string) (argv, env []string) {
	fill := strings.NewReplacer("{connection_file}", connection, "{resource_dir}", k.dir)
	for _, a := range k.Argv {
		argv = append(argv, fill.Replace(a))
	}
	if _, err := exec.LookPath(argv[0]); err != nil && argv[0] == "python" {
		argv[0] = "python3"
	}
	if filepath.Base(argv[0]) == "R" {
		// An interrupt at a moment when IRkernel does not expect one would end R. This handler is
		// the last one, so it drops only such interrupts.
		argv = slices.Insert(argv, 1, "-e",
			"globalCallingHandlers(interrupt = function(c) invokeRestart('resume'))")
	}
	env = os.Environ()
	for name, value := range k.Env {
		env = append(env, name+"="+os.Expand(value, func(key string) string {
			if v, ok := os.LookupEnv(key); ok {
				return v
			}
			return "${" + key + "}"
		}))
	}
	return argv, env
}
