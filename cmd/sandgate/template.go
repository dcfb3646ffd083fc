package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/image"
	"github.com/sandgate/sandgate/protocol"
)

func templateCommand() command {
	return command{
		name: "template", args: "build FILE | ls | inspect NAME | rm NAME...", short: "Make, list, show and remove templates",
		long: `
A template is what sessions start from, warm: packages, files, environment, code
that has run. FILE is YAML; paths in it are relative to its folder:

  name: data
  description: what it is for
  image: ./image              # an OCI layout, a tar of one or of docker save, or
                              # a name in a registry; without it, the server's
  languages: [python]         # the first is warm
  env: {STAGE: test}
  limits: {memory: 2GiB, cpus: 1, processes: 256, open_files: 1024, disk: 1GiB,
           tmp: 64MiB, inodes: 10000, output: 1MiB, cell: 60s}
  files:
    - {from: ./lib, to: lib}  # into /home/user unless absolute
  packages: {python: [tinydb], javascript: [], go: [], php: [],
             java: ["com.google.code.gson:gson:2.11.0", a.jar], from: ./wheels}
  run: ["python3 -m compileall lib"]
  code: import lib
  bare: false                 # true leaves out pandas and the like: lighter
  volumes: ["shared:/data:ro"]       # that its sessions have, as for --volume
  build_network: {allow: [pypi.org, files.pythonhosted.org]}  # or true
  session_network: false             # of its sessions that do not say

Packages are installed from the files in the folder that from names and, with
build_network, from the languages' indexes. That is for packages and run alone:
a session has no network unless it asks for one, or session_network says so.
build waits until the template is ready, unless --detach.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			if len(args) == 0 || strings.HasPrefix(args[0], "-") {
				if err := parse(set, args, 0, 0); err != nil {
					return err
				}
				return usagef("say build, ls, inspect or rm")
			}
			switch word, args := args[0], args[1:]; word {
			case "build":
				return buildTemplate(ctx, a, set, args)
			case "ls":
				return listTemplates(ctx, a, set, args)
			case "inspect":
				return inspectTemplate(ctx, a, set, args)
			case "rm":
				return eachSession("template rm", "", (*client.Client).DeleteTemplate).run(ctx, a, set, args)
			default:
				return usagef("there is no template %s: build, ls, inspect or rm", word)
			}
		},
	}
}

// recipe is what a template's file says.
type recipe struct {
	Name        string            `yaml:"name"`
	Description string            `yaml:"description"`
	Image       string            `yaml:"image"`
	Languages   []string          `yaml:"languages"`
	Env         map[string]string `yaml:"env"`
	Limits      struct {
		Memory    string        `yaml:"memory"`
		CPUs      float64       `yaml:"cpus"`
		Processes int           `yaml:"processes"`
		OpenFiles int           `yaml:"open_files"`
		Disk      string        `yaml:"disk"`
		Tmp       string        `yaml:"tmp"`
		Inodes    int64         `yaml:"inodes"`
		Output    string        `yaml:"output"`
		Cell      time.Duration `yaml:"cell"`
	} `yaml:"limits"`
	Files []struct {
		From string `yaml:"from"`
		To   string `yaml:"to"`
	} `yaml:"files"`
	Packages struct {
		From       string   `yaml:"from"`
		Python     []string `yaml:"python"`
		JavaScript []string `yaml:"javascript"`
		Go         []string `yaml:"go"`
		PHP        []string `yaml:"php"`
		Java       []string `yaml:"java"`
	} `yaml:"packages"`
	Run            []string `yaml:"run"`
	Code           string   `yaml:"code"`
	Bare           bool     `yaml:"bare"`
	Volumes        []string `yaml:"volumes"`
	BuildNetwork   outward  `yaml:"build_network"`
	SessionNetwork outward  `yaml:"session_network"`

	dir string
}

// outward is a protocol.Network in YAML: true, false, or {allow: [HOST...]}.
type outward struct{ *protocol.Network }

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *outward) UnmarshalYAML(n *yaml.Node) error {
	var v any
	if err := n.Decode(&v); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err == nil {
		o.Network = new(protocol.Network)
		err = json.Unmarshal(text, o.Network)
	}
	if err != nil {
		return fmt.Errorf("line %d: a network is true, false or {allow: [HOST...]}", n.Line)
	}
	return nil
}

func readRecipe(file string) (*recipe, error) {
	const op = "template.read"
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, localError(err)
	}
	r := &recipe{dir: filepath.Dir(file)}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(r); err != nil {
		return nil, fault.Invalid(op, "FILE", "%s: %v", file, err)
	}
	if r.Name == "" {
		return nil, fault.Invalid(op, "name", "%s gives the template no name", file)
	}
	return r, nil
}

// spec is what the server is told.
func (r *recipe) spec() (protocol.TemplateSpec, error) {
	l := r.Limits
	s := protocol.TemplateSpec{
		Description: r.Description, Languages: r.Languages, Env: r.Env, Run: r.Run, Code: r.Code, Bare: r.Bare,
		Limits: protocol.Limits{CPUs: l.CPUs, Processes: l.Processes, OpenFiles: l.OpenFiles, Inodes: l.Inodes, CellSeconds: int64(l.Cell / time.Second)},
	}
	for _, x := range []struct {
		name, text string
		to         *int64
	}{
		{"memory", l.Memory, &s.Limits.MemoryBytes},
		{"disk", l.Disk, &s.Limits.DiskBytes},
		{"tmp", l.Tmp, &s.Limits.TmpBytes},
		{"output", l.Output, &s.Limits.OutputBytesPerSecond},
	} {
		if x.text == "" {
			continue
		}
		n, err := config.ParseSize(x.text)
		if err != nil {
			return s, fault.Invalid("template.read", "limits."+x.name, "%v", err)
		}
		*x.to = int64(n)
	}
	s.Packages = map[string][]string{}
	for language, names := range map[string][]string{
		"python": r.Packages.Python, "javascript": r.Packages.JavaScript, "go": r.Packages.Go, "php": r.Packages.PHP, "java": r.Packages.Java,
	} {
		if len(names) > 0 {
			s.Packages[language] = names
		}
	}
	s.BuildNetwork, s.SessionNetwork = r.BuildNetwork.Network, r.SessionNetwork.Network
	if n := s.BuildNetwork; len(s.Packages) > 0 && r.Packages.From == "" && (n == nil || n.Off) {
		return s, fault.Invalid("template.read", "packages.from", "sandboxes have no network: name the folder that the packages are in, or let the build out with build_network")
	}
	for i, text := range r.Volumes {
		if err := (*mounts)(&s.Volumes).Set(text); err != nil {
			return s, fault.Invalid("template.read", fmt.Sprintf("volumes[%d]", i), "%v", err)
		}
	}
	return s, nil
}

// pack writes the tar that the server takes.
func (r *recipe) pack(ctx context.Context, w io.Writer) error {
	spec, err := r.spec()
	if err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "template.json", Size: int64(len(text)), Mode: 0o644}); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	if r.Image != "" {
		if err := r.packImage(ctx, out); err != nil {
			return err
		}
	}
	for _, f := range r.Files {
		to := f.To
		if to == "" {
			to = filepath.Base(f.From)
		}
		if !path.IsAbs(to) {
			to = path.Join("/home/user", to)
		}
		if err := packTree(out, r.path(f.From), "files"+path.Clean(to)); err != nil {
			return err
		}
	}
	if r.Packages.From != "" {
		if err := packTree(out, r.path(r.Packages.From), "packages"); err != nil {
			return err
		}
	}
	return out.Close()
}

func (r *recipe) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(r.dir, p)
}

// packImage packs an image as an OCI layout of one image.
func (r *recipe) packImage(ctx context.Context, out *tar.Writer) error {
	from := r.Image
	if _, err := os.Stat(r.path(from)); err == nil {
		from = r.path(from)
	} else if strings.HasPrefix(from, ".") || filepath.IsAbs(from) {
		return localError(err)
	}
	dir, err := os.MkdirTemp("", "sandgate-image-")
	if err != nil {
		return localError(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := image.Fetch(ctx, from, dir); err != nil {
		return err
	}
	return packTree(out, image.Layout(dir), "oci")
}

// packTree packs a file, or a folder with all regular files in it. Links are
// followed where they are named themselves, and nowhere else.
func packTree(out *tar.Writer, from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return localError(err)
	}
	if !info.IsDir() {
		return packFile(out, from, to)
	}
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return localError(err)
		}
		rel, err := filepath.Rel(from, p)
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return packFile(out, p, path.Join(to, filepath.ToSlash(rel)))
	})
}

func packFile(out *tar.Writer, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return localError(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return localError(err)
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: to, Size: info.Size(), Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return err
}

func buildTemplate(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	detach := set.Bool("detach", false, "Do not wait until it is ready.")
	if err := parse(set, args, 1, 1); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	r, err := readRecipe(set.Arg(0))
	if err != nil {
		return err
	}
	in, out := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := r.pack(ctx, out)
		packed <- err
		_ = out.CloseWithError(err) // nil is the end
	}()
	t, err := c.BuildTemplate(ctx, r.Name, in)
	_ = in.CloseWithError(io.ErrClosedPipe)
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return perr
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "stored %s\n", t.Name)
	if *detach {
		return nil
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	shown := ""
	show := func() {
		fmt.Fprint(a.out, screened(news(shown, t.Log)))
		shown = t.Log
	}
	for t.State == "building" {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if t, err = c.Template(ctx, t.Name); err != nil {
			return err
		}
		show()
	}
	if shown != "" && !strings.HasSuffix(shown, "\n") {
		fmt.Fprintln(a.out)
	}
	if t.State == "failed" {
		return &fault.Error{Kind: fault.Conflict, Op: "template.build", Message: t.Error}
	}
	fmt.Fprintf(a.out, "ready: sandgate sessions create --template %s\n", t.Name)
	return nil
}

// news is what a log has more than it had. Of a long one only the end is known:
// it goes on behind the last line that was shown.
func news(shown, log string) string {
	if more, ok := strings.CutPrefix(log, shown); ok {
		return more
	}
	last := shown[max(0, len(shown)-256):]
	if _, more, ok := strings.Cut(log, last); ok {
		return more
	}
	return log
}

// screened keeps what a build has printed from steering the terminal.
func screened(s string) string {
	var out strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		text, end := strings.CutSuffix(line, "\n")
		out.WriteString(printable(strings.TrimSuffix(text, "\r")))
		if end {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func listTemplates(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	if err := parse(set, args, 0, 0); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	all, err := c.Templates(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	if len(all) > 0 {
		fmt.Fprintln(w, "NAME\tSTATE\tLANGUAGES\tAGE\tSIZE\tPOOL\tDESCRIPTION")
	}
	for _, t := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d KiB\t%d of %d\t%s\n", t.Name, t.State, strings.Join(t.Languages, ","), since(t.CreatedMS), (t.Bytes+1023)/1024, t.Ready, t.Size, printable(t.Spec.Description))
	}
	return w.Flush()
}

func inspectTemplate(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	if err := parse(set, args, 1, 1); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	t, err := c.Template(ctx, set.Arg(0))
	if err != nil {
		return err
	}
	return a.printJSON(t)
}
