package templates

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// home is the folder in which a build begins.
	home = "/home/user"
	// startName is the name of the service of a template's start command.
	startName = "start"
	// readyLine is a line of the output of that service. It says that the ready command succeeded.
	readyLine = "sandgate: the start command is ready"
	// readySeconds is how long a ready command may take to succeed.
	readySeconds = 120
	// maxSteps bounds the steps of a build.
	maxSteps = 256
)

// portReady matches the ready command of clients that waits for a port. The program that it uses is
// not in every image, and the node can wait for a port itself.
var portReady = regexp.MustCompile(`^\[ -n "\$\(ss -Htuln sport = :(\d{1,5})\)" \]$`)

// baseImages are the images that stand for the server's own image.
var baseImages = []string{"e2bdev/base", "e2bdev/code-interpreter"}

// baseTemplates are the templates that stand for the server's own image.
var baseTemplates = []string{"", "base", "code-interpreter-v1"}

// startRequest is the body that starts a build.
type startRequest struct {
	FromImage    string         `json:"fromImage"`
	FromTemplate string         `json:"fromTemplate"`
	Registry     map[string]any `json:"fromImageRegistry"`
	Start        string         `json:"startCmd"`
	Ready        string         `json:"readyCmd"`
	Steps        []step         `json:"steps"`
	// Force has no effect: every build runs all steps.
	Force bool `json:"force"`
}

// step is one instruction. Clients send the last fields too; they concern only the client.
type step struct {
	Type            string   `json:"type"`
	Args            []string `json:"args"`
	Hash            string   `json:"filesHash"`
	Force           bool     `json:"force"`
	ForceUpload     *bool    `json:"forceUpload"`
	ResolveSymlinks *bool    `json:"resolveSymlinks"`
	Gzip            *bool    `json:"gzip"`
}

// copyStep copies the files of an archive into the template.
type copyStep struct {
	hash, src, dest string
	mode            int64 // 0 means that of the archive
}

// plan is a build in the terms of the node.
type plan struct {
	spec   protocol.TemplateSpec
	copies []copyStep
}

// planOf translates a build. Files are copied before any command runs, and everything runs as the
// user of the sandbox. Errors: InvalidArgument and Unsupported, with the field.
func planOf(r startRequest) (p plan, err error) {
	if err := checkBase(r); err != nil {
		return p, err
	}
	if len(r.Steps) > maxSteps {
		return p, invalid("steps", "a build has at most %d steps", maxSteps)
	}
	b := builder{workdir: home}
	b.spec.Env = map[string]string{}
	for i, s := range r.Steps {
		if err := b.add(i, s); err != nil {
			return p, err
		}
	}
	b.start(r.Start, r.Ready)
	return b.plan, nil
}

// checkBase rejects what a template cannot begin with on this server.
func checkBase(r startRequest) error {
	image, _, _ := strings.Cut(r.FromImage, ":")
	image = strings.TrimPrefix(image, "docker.io/")
	switch {
	case r.FromImage != "" && r.FromTemplate != "":
		return invalid("fromTemplate", "a template begins with an image or a template, not with both")
	case image != "" && !slices.Contains(baseImages, image):
		return unsupported("fromImage", "this server builds on its own image (%s), not on %.80q; "+
			"a template with another image is built from an OCI layout by PUT /v1/templates/NAME",
			baseImages[0], r.FromImage)
	case !slices.Contains(baseTemplates, strings.TrimSuffix(r.FromTemplate, tagDefault)):
		return unsupported("fromTemplate",
			"this server builds on its own template (base), not on %.80q", r.FromTemplate)
	}
	return nil
}

// builder collects the steps of a build.
type builder struct {
	plan
	workdir string
}

// add adds the step with the number i.
func (b *builder) add(i int, s step) error {
	field := fmt.Sprintf("steps[%d]", i)
	need := map[string]int{"COPY": 2, "RUN": 1, "WORKDIR": 1, "USER": 1, "ENV": 2}[s.Type]
	switch {
	case need == 0:
		return invalid(field+".type", "%.40q is not COPY, RUN, WORKDIR, USER or ENV", s.Type)
	case len(s.Args) < need:
		return invalid(field+".args", "%s has at least %d arguments", s.Type, need)
	}
	switch s.Type {
	case "COPY":
		return b.copy(field, s)
	case "RUN":
		if len(s.Args) > 1 {
			if err := checkUser(field, s.Args[1]); err != nil {
				return err
			}
		}
		b.run(i, s.Args[0])
	case "WORKDIR":
		b.workdir = b.absolute(s.Args[0])
		b.spec.Run = append(b.spec.Run, fmt.Sprintf("mkdir -p %s %s%d", quote(b.workdir), stepMark, i+1))
	case "USER":
		return checkUser(field, s.Args[0])
	case "ENV":
		if len(s.Args)%2 != 0 {
			return invalid(field+".args", "ENV has names and values in turn")
		}
		for k := 0; k < len(s.Args); k += 2 {
			b.spec.Env[s.Args[k]] = s.Args[k+1]
		}
	}
	return nil
}

// checkUser accepts the users that templates of clients name. All steps run as the user of the
// sandbox, which has no other rights.
func checkUser(field, name string) error {
	if !slices.Contains([]string{"", "user", "root"}, name) {
		return invalid(field+".args", "a sandbox has no user %.40q; all steps run as user", name)
	}
	return nil
}

func (b *builder) copy(field string, s step) error {
	if !validHash(s.Hash) {
		return invalid(field+".filesHash", "COPY needs the hash of its files")
	}
	c := copyStep{hash: s.Hash, src: path.Clean(s.Args[0]), dest: b.absolute(s.Args[1])}
	if strings.HasSuffix(s.Args[1], "/") && c.dest != "/" || s.Args[1] == "." || s.Args[1] == "" {
		c.dest += "/"
	}
	if path.IsAbs(c.src) || c.src == ".." || strings.HasPrefix(c.src, "../") {
		return invalid(field+".args", "%.80q is outside the folder of the build", s.Args[0])
	}
	if len(s.Args) > 2 {
		if err := checkUser(field, s.Args[2]); err != nil {
			return err
		}
	}
	if len(s.Args) > 3 && s.Args[3] != "" {
		mode, err := strconv.ParseInt(s.Args[3], 8, 32)
		if err != nil || mode < 0 || mode > 0o777 {
			return invalid(field+".args", "%.20q is not an octal mode of at most 777", s.Args[3])
		}
		c.mode = mode
	}
	b.copies = append(b.copies, c)
	return nil
}

// run adds a command, which begins in the present folder. The log shows commands, and so the number
// of the step.
func (b *builder) run(i int, command string) {
	b.spec.Run = append(b.spec.Run,
		fmt.Sprintf("cd %s || exit %s%d\n%s", quote(b.workdir), stepMark, i+1, command))
}

// stepMark begins the number of a step in the log, which ends the line.
const stepMark = "# step "

// start adds the start command, a service of each session. Its output has a line once the ready
// command has succeeded. Without a start command the ready command is awaited in the build.
func (b *builder) start(start, ready string) {
	wait := "until (\n" + ready + "\n) >/dev/null 2>&1; do sleep 0.2; done"
	switch {
	case start == "" && ready == "":
		return
	case start == "":
		b.spec.Run = append(b.spec.Run,
			fmt.Sprintf("timeout %d sh -c %s", readySeconds, quote(wait)))
		return
	}
	s := protocol.Service{Name: startName, Cmd: start, Restart: "on-failure", Cwd: b.workdir}
	if port := portReady.FindStringSubmatch(ready); port != nil {
		n, _ := strconv.Atoi(port[1]) // the node checks it
		s.Ready = &protocol.ServiceReady{Port: n, TimeoutSeconds: readySeconds}
	} else if ready != "" {
		s.Cmd = "(" + wait + "; echo " + quote(readyLine) + ") &\n" + start
		s.Ready = &protocol.ServiceReady{Log: "^" + readyLine + "$", TimeoutSeconds: readySeconds}
	}
	b.spec.Services = []protocol.Service{s}
}

// absolute returns a path of a step as an absolute one.
func (b *builder) absolute(p string) string {
	switch {
	case p == "~":
		return home
	case strings.HasPrefix(p, "~/"):
		return path.Join(home, p[2:])
	case path.IsAbs(p):
		return path.Clean(p)
	}
	return path.Join(b.workdir, p)
}

// target returns where a file of a step's archive is copied to; ok is false for a file that is not
// part of the copy. single is set if the archive has one file.
func (c copyStep) target(name string, single bool) (to string, ok bool) {
	switch {
	case name == c.src && single:
		if strings.HasSuffix(c.dest, "/") || slices.Contains([]string{"/", home, "/tmp"}, c.dest) {
			return path.Join(c.dest, path.Base(name)), true
		}
		return c.dest, true
	case name == c.src:
		return path.Join(c.dest, path.Base(name)), true
	case c.src == ".":
		return path.Join(c.dest, name), true
	}
	if rest, below := strings.CutPrefix(name, c.src+"/"); below {
		return path.Join(c.dest, rest), true
	}
	fixed, _, glob := strings.Cut(c.src, "*")
	if i := strings.IndexAny(c.src, "?[{"); i >= 0 && (!glob || i < len(fixed)) {
		fixed, glob = c.src[:i], true
	}
	if !glob || !strings.HasPrefix(name, fixed) {
		return "", false
	}
	folder := fixed[:strings.LastIndex(fixed, "/")+1]
	return path.Join(c.dest, strings.TrimPrefix(name, folder)), true
}

// quote returns a word of a shell command.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func unsupported(field, format string, args ...any) error {
	e := fault.New(fault.Unsupported, "e2b.template", format, args...)
	e.Field = field
	return e
}

func invalid(field, format string, args ...any) error {
	return fault.Invalid("e2b.template", field, format, args...)
}
