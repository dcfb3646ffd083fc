package request

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const opCreate = protocol.OpSessionCreate

// Session is a resolved request for a new session.
type Session struct {
	Template *warm.Template
	Language string        // the session's default; "" if the template has none
	Lifetime time.Duration // 0 means that it need not end
	Limits   protocol.Limits
	Policy   snapshot.Policy
	Network  *protocol.Network // nil for none
	Labels   map[string]string
	// Volumes are those of the request, then those of the template.
	Volumes []protocol.Mount
	// Services are those of the request, then those of the template.
	Services []protocol.Service
}

// Create checks and resolves a request for a new session. Errors:
// InvalidArgument, NotFound for an unknown template, Conflict for one that could
// not be built.
func (c *Checker) Create(p noderpc.Principal, r protocol.SessionCreate) (w Session, err error) {
	if err := checkName(opCreate, r.Name); err != nil {
		return w, err
	}
	if err := checkEnv(opCreate, r.Env); err != nil {
		return w, err
	}
	if w.Labels, err = Labels(opCreate, p, nil, r.Labels); err != nil {
		return w, err
	}
	if w.Lifetime, err = c.lifetime(opCreate, r.LifetimeSeconds); err != nil {
		return w, err
	}
	if w.Policy, err = c.policy(r); err != nil {
		return w, err
	}
	w.Policy.Lifetime = w.Lifetime
	if r.Template != "" {
		w.Template, w.Language, err = c.template(p, r)
	} else {
		w.Template, w.Language, err = c.languageTemplate(r.Language)
	}
	if err != nil {
		return w, err
	}
	field, network := "network", r.Network
	w.Volumes, w.Services = r.Volumes, r.Services
	if def := w.Template.Def(); def != nil {
		w.Volumes = volume.MergeMounts(r.Volumes, def.Spec.Volumes)
		w.Services = mergeServices(r.Services, def.Spec.Services)
		if network == nil {
			field, network = "template.session_network", def.Spec.SessionNetwork
		}
	}
	if err := volume.CheckMounts(opCreate, w.Volumes); err != nil {
		return w, err
	}
	if err := Services(opCreate, "services", w.Services); err != nil {
		return w, err
	}
	if w.Network, err = c.cfg.Egress.Check(opCreate, field, p.Tenant, network); err != nil {
		return w, err
	}
	w.Limits = w.Template.Limits()
	if r.Limits != nil {
		if err := c.limits(opCreate, r.Limits); err != nil {
			return w, err
		}
		w.Limits = warm.MergeLimits(w.Limits, *r.Limits)
	}
	return w, nil
}

// languageTemplate returns the template of a language, and its name. The empty
// name means the default language.
func (c *Checker) languageTemplate(name string) (*warm.Template, string, error) {
	if name == "" {
		name = c.cfg.DefaultLanguage
	}
	name, err := c.Language(opCreate, name)
	if err != nil {
		return nil, "", err
	}
	return c.cfg.Templates.Language(name), name, nil
}

// template returns the user's template that a request names, and the language.
func (c *Checker) template(p noderpc.Principal,
	r protocol.SessionCreate,
) (*warm.Template, string, error) {
	t, err := c.cfg.Templates.Find(opCreate, "template", p.Tenant, r.Template)
	if err != nil {
		return nil, "", err
	}
	language := t.WarmLanguage()
	if r.Language != "" {
		l, err := kernel.Find(slices.Concat(c.cfg.Languages, t.Def().Kernelspecs), r.Language)
		if err != nil || !slices.Contains(t.Def().Languages, l.Name) {
			return nil, "", fault.Invalid(opCreate, "language",
				"the template has no language %.40q; it has %s", r.Language,
				strings.Join(t.Def().Languages, ", "))
		}
		language = l.Name
	}
	if r.Limits != nil && !warm.SameSnapshot(warm.MergeLimits(t.Limits(), *r.Limits), t.Limits()) {
		return nil, "", fault.Invalid(opCreate, "limits",
			"processes, open_files, disk_bytes, tmp_bytes and inodes are the template's; build one with others")
	}
	if err := t.Failure(); err != nil {
		return nil, "", &fault.Error{
			Kind: fault.Conflict, Op: opCreate, Field: "template", Cause: fault.CauseTemplateBuild,
			Message: "the template could not be built: " + fault.PublicOf(err).Message,
		}
	}
	return t, language, nil
}

// Template checks the parts of a template that its sessions use. Its languages are checked later,
// because its image and its files may have others than the node's image. Errors: InvalidArgument.
func (c *Checker) Template(tenant string, s *protocol.TemplateSpec) error {
	const op = "template.build"
	if err := checkEnv(op, s.Env); err != nil {
		return err
	}
	if err := c.limits(op, &s.Limits); err != nil {
		return err
	}
	if _, err := c.cfg.Egress.Check(op, "build_network", tenant, s.BuildNetwork); err != nil {
		return err
	}
	if _, err := c.cfg.Egress.Check(op, "session_network", tenant, s.SessionNetwork); err != nil {
		return err
	}
	if err := Services(op, "services", s.Services); err != nil {
		return err
	}
	return volume.CheckMounts(op, s.Volumes)
}

// Language returns the name of a language, for a name or an alias: one of the node's image, or one
// of more. Errors: InvalidArgument.
func (c *Checker) Language(op, name string, more ...kernel.Manifest) (string, error) {
	all := slices.Concat(c.cfg.Languages, more)
	if l, err := kernel.Find(all, name); err == nil {
		return l.Name, nil
	}
	var names []string
	for _, l := range all {
		names = append(names, l.Name)
	}
	return "", fault.Invalid(op, "language", "there is no language %.40q; there are %s", name,
		strings.Join(names, ", "))
}

func checkName(op, name string) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, control) {
		return fault.Invalid(op, "name",
			"a name is UTF-8 text of at most %d bytes without control characters", maxName)
	}
	return nil
}

// checkEnv checks environment variables.
func checkEnv(op string, env map[string]string) error {
	if len(env) > maxEnv {
		return fault.Invalid(op, "env", "there are %d variables, the limit is %d", len(env), maxEnv)
	}
	valid := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	bytes := 0
	for name, value := range env {
		if !valid.MatchString(name) {
			return fault.Invalid(op, "env",
				"%.80q is not the name of a variable: letters, digits and _, not a digit first",
				name)
		}
		if strings.ContainsRune(value, 0) {
			return fault.Invalid(op, "env", "the value of %.80s holds a zero byte", name)
		}
		bytes += len(name) + len(value)
	}
	if bytes > maxEnvBytes {
		return fault.Invalid(op, "env", "the variables have %d bytes, the limit is %d", bytes,
			maxEnvBytes)
	}
	return nil
}
