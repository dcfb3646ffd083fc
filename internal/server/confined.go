package server

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/sandgate/sandgate/internal/confine"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The jobs of confined children of the node.
const (
	jobUnpack = "template.unpack"
	jobImage  = "image.make"
)

// Confined runs a job in a child that the node has started. It returns the exit code.
func Confined(job string) int {
	return confine.Main(map[string]confine.Job{jobUnpack: unpackTemplate, jobImage: makeImage}, job)
}

// confined makes images and reads templates in confined children.
type confined struct {
	runner confine.Runner
	// base is the server's own image.
	base string
}

func newConfined(rt *gvisor.Runtime, base string) confined {
	return confined{
		runner: confine.Runner{
			Argv: []string{"/proc/self/exe", "confined"},
			NewGroup: func() (confine.Group, error) {
				return rt.NewJobGroup(confine.Memory, confine.CPUs, confine.PIDs)
			},
		},
		base: base,
	}
}

type unpackArgs struct {
	Dir   string `json:"dir"`
	Limit int64  `json:"limit"`
}

// Unpack implements warm.Unpacker.
func (c confined) Unpack(ctx context.Context, tar io.Reader, dir string,
	limit int64,
) (u warm.Unpacked, err error) {
	err = c.runner.Run(ctx, confine.Task{
		Job: jobUnpack, Args: unpackArgs{dir, limit}, Write: []string{dir}, In: tar,
	}, &u)
	return u, err
}

func unpackTemplate(_ context.Context, args json.RawMessage, in io.Reader) (any, error) {
	var a unpackArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, fault.Wrap(fault.Internal, jobUnpack, err)
	}
	return warm.Unpack(in, a.Dir, a.Limit)
}

type imageArgs struct {
	Base string `json:"base"`
	Dir  string `json:"dir"`
	Out  string `json:"out"`
}

type imageResult struct {
	Languages   []string          `json:"languages"`
	Kernelspecs []kernel.Manifest `json:"kernelspecs"`
	Env         []string          `json:"env"`
}

// Make implements warm.Images.
func (c confined) Make(ctx context.Context, dir, out string) (languages []string,
	specs []kernel.Manifest, env []string, err error,
) {
	base, err := filepath.EvalSymlinks(c.base)
	if err != nil {
		return nil, nil, nil, fault.Wrap(fault.Host, jobImage, err)
	}
	var r imageResult
	err = c.runner.Run(ctx, confine.Task{
		Job: jobImage, Args: imageArgs{base, dir, out},
		Read: []string{base, dir}, Write: []string{filepath.Dir(out)},
	}, &r)
	return r.Languages, r.Kernelspecs, r.Env, err
}

func makeImage(ctx context.Context, args json.RawMessage, _ io.Reader) (any, error) {
	var a imageArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, fault.Wrap(fault.Internal, jobImage, err)
	}
	have, err := ReadLanguages(a.Base)
	if err != nil {
		return nil, err
	}
	languages, specs, env, err := imageMaker(a.Base, have).Make(ctx, a.Dir, a.Out)
	return imageResult{languages, specs, env}, err
}
