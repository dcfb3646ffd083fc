package control

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/templates"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The templates that clients name without having made them. Both are the server's default.
const (
	templateBase = "base"
	templateCode = "code-interpreter-v1"
)

// snapshotID begins the ids of snapshots, which are templates in this API.
const snapshotID = "n_"

// newSandbox is the body of a request for a sandbox.
type newSandbox struct {
	Template string            `json:"templateID"`
	Timeout  *int64            `json:"timeout"`
	Metadata map[string]string `json:"metadata"`
	Env      map[string]string `json:"envVars"`
	// Secure is always on in version 2 of the request. Without it, the interpreter may need no token
	// if the server allows that; all other ports are as with it.
	Secure          *bool           `json:"secure"`
	AutoPause       bool            `json:"autoPause"`
	AutoPauseMemory *bool           `json:"autoPauseMemory"`
	AutoResume      *autoResume     `json:"autoResume"`
	Internet        *bool           `json:"allow_internet_access"`
	Network         *networkRequest `json:"network"`
	IAM             *iamRequest     `json:"iam"`
	MCP             json.RawMessage `json:"mcp"`
	Volumes         []volumeMount   `json:"volumeMounts"`
}

// autoResume says whether a request to a paused sandbox resumes it.
type autoResume struct {
	Enabled bool `json:"enabled"`
	// Policy is off or any. Some versions of the clients send it instead of Enabled.
	Policy string `json:"policy"`
}

// iamRequest asks for workload tokens.
type iamRequest struct {
	Tokens map[string]json.RawMessage `json:"tokens"`
}

// createSandbox creates a sandbox. It waits for one operation of the node, and for a second one only
// if the first was refused for a reason that a second can avoid.
func (s *Plane) createSandbox(w http.ResponseWriter, r *http.Request) error {
	var p newSandbox
	if err := decode(r, &p, false); err != nil {
		return err
	}
	if always := true; strings.HasPrefix(r.URL.Path, "/v2/") {
		p.Secure = &always
	}
	c, err := creation(p)
	if err != nil {
		return err
	}
	// A principal without the scope manage may set the server's labels; see request.Labels.
	who := withoutManage(surface.CallOf(r).Who)
	var v protocol.Session
	ask := func() error { return s.callAs(r, who, protocol.OpSessionCreate, c, &v) }
	err = ask()
	if c.Network != nil && c.Network.Allow == nil && deniedEgress(err) {
		c.Network = nil // the server lets nothing out, and nothing particular was asked for
		err = ask()
	}
	if missingTemplate(err, c) {
		c.Template, c.Snapshot = "", p.Template // a snapshot is found by its name, too
		if err = ask(); fault.Is(err, fault.NotFound) {
			return s.noTemplate(r, p.Template)
		}
	}
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusCreated, v)
}

// creation returns the operation for a request. Errors: InvalidArgument and Unsupported, with the
// field.
func creation(p newSandbox) (c protocol.SessionCreate, err error) {
	if err := offered(p); err != nil {
		return c, err
	}
	c = protocol.SessionCreate{Env: p.Env, Labels: map[string]string{}}
	switch name := templates.Native(p.Template); {
	case p.Template == "":
		return c, invalid("templateID", "a sandbox needs a template, such as %s", templateBase)
	case len(p.Template) > protocol.MaxLabelValue:
		return c, invalid("templateID", "it has at most %d bytes", protocol.MaxLabelValue)
	case name == templateBase, name == templateCode:
	case strings.HasPrefix(p.Template, snapshotID):
		c.Snapshot = p.Template
	default:
		// The start command of a template is ready when a sandbox of it is.
		c.Template, c.WaitReady = name, true
	}
	if c.LifetimeSeconds, err = lifetime("timeout", p.Timeout); err != nil {
		return c, err
	}
	if err := checkMetadata(p.Metadata); err != nil {
		return c, err
	}
	for key, value := range p.Metadata {
		c.Labels[e2bname.LabelOf(key)] = value
	}
	c.Labels[e2bname.LabelTemplate] = p.Template
	o := e2bname.Options{
		AutoPause: p.AutoPause, AutoResume: p.AutoResume.on(),
		Insecure: p.Secure == nil || !*p.Secure,
	}
	switch {
	case o.AutoResume:
		c.OnExpiry = protocol.OnExpiryHibernate
	case o.AutoPause:
		c.OnExpiry = protocol.OnExpirySuspend
	}
	if p.Network != nil {
		o.PrivatePorts = p.Network.Public != nil && !*p.Network.Public
	}
	if c.Network, err = egress(p.Internet, p.Network); err != nil {
		return c, err
	}
	o.NoInternet = c.Network != nil && c.Network.Off
	if o != (e2bname.Options{}) {
		c.Labels[e2bname.LabelOptions] = o.Label()
	}
	c.Volumes, err = mounts(p.Volumes)
	return c, err
}

// offered returns an error for an option that this server does not offer.
func offered(p newSandbox) error {
	switch {
	case p.IAM != nil && len(p.IAM.Tokens) > 0:
		return unsupported("iam", "this server issues no workload tokens")
	case len(p.MCP) > 0 && string(p.MCP) != "null":
		return unsupported("mcp", "this server has no MCP gateway for sandboxes")
	case p.AutoPauseMemory != nil && !*p.AutoPauseMemory:
		return unsupported("autoPauseMemory", "a pause always keeps the memory on this server")
	case p.AutoResume.on() && !p.AutoPause:
		return invalid("autoResume", "it needs autoPause")
	case p.AutoResume != nil && !slices.Contains([]string{"", "off", "any"}, p.AutoResume.Policy):
		return invalid("autoResume.policy", "it is off or any")
	}
	return nil
}

func (a *autoResume) on() bool { return a != nil && (a.Enabled || a.Policy == "any") }

// lifetime returns the seconds of a timeout: those of DefaultTimeout without one.
func lifetime(field string, seconds *int64) (int64, error) {
	switch {
	case seconds == nil:
		return int64(DefaultTimeout / time.Second), nil
	case *seconds < 1 || *seconds > math.MaxInt32:
		return 0, invalid(field, "a sandbox lives for 1 to %d seconds", math.MaxInt32)
	}
	return *seconds, nil
}

// checkMetadata rejects keys that belong to the server. The node checks the rest.
func checkMetadata(m map[string]string) error {
	for key := range m {
		if strings.HasPrefix(key, protocol.ReservedLabels) {
			return invalid("metadata", "%.80q is a key of the server: it begins with %s", key,
				protocol.ReservedLabels)
		}
	}
	for key := range m {
		if most := 42; len(e2bname.LabelOf(key)) > protocol.MaxLabelKey {
			return invalid("metadata", "the key %.80q is over %d bytes, or %d with characters "+
				"other than letters, digits, dots, dashes, underscores and slashes", key,
				protocol.MaxLabelKey, most)
		}
	}
	if most := protocol.MaxLabels - 2; len(m) > most { // the server sets two
		return invalid("metadata", "a sandbox has at most %d keys", most)
	}
	return nil
}

// mounts returns the volumes of a sandbox.
func mounts(asked []volumeMount) ([]protocol.Mount, error) {
	if len(asked) > protocol.MaxMounts {
		return nil, invalid("volumeMounts", "a sandbox has at most %d volumes", protocol.MaxMounts)
	}
	var all []protocol.Mount
	for _, m := range asked {
		if m.Name == "" || m.Path == "" {
			return nil, invalid("volumeMounts", "each volume has a name and a path")
		}
		path := m.Path
		if path == "/volumes/"+m.Name {
			path = ""
		}
		all = append(all, protocol.Mount{Name: m.Name, Path: path})
	}
	return all, nil
}

// withoutManage returns the principal without the scope with which it manages sessions.
func withoutManage(who noderpc.Principal) noderpc.Principal {
	who.Scopes = slices.DeleteFunc(slices.Clone(who.Scopes),
		func(scope string) bool { return scope == string(protocol.ScopeManage) })
	return who
}

// deniedEgress reports whether a sandbox was refused because the server lets nothing out.
func deniedEgress(err error) bool {
	p := fault.PublicOf(err)
	return err != nil && p.Kind == fault.PermissionDenied && p.Cause == fault.CauseEgress &&
		p.Field == "network"
}

// missingTemplate reports whether a sandbox was refused because its template does not exist.
func missingTemplate(err error, c protocol.SessionCreate) bool {
	return c.Template != "" && fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field == "templateID"
}

// noTemplate returns the error for a template that does not exist, which names those that do.
func (s *Plane) noTemplate(r *http.Request, name string) error {
	names := []string{templateBase, templateCode}
	var list protocol.TemplateList
	if err := s.call(r, protocol.OpTemplateList, struct{}{}, &list); err != nil {
		return err
	}
	for _, t := range list.Templates {
		names = append(names, namesOf(t).Names[0])
	}
	const most = 20
	rest := ""
	if len(names) > most {
		names, rest = names[:most], ", …"
	}
	e := fault.New(fault.NotFound, "e2b.create", "template %.80q not found; there are %s%s", name,
		strings.Join(names, ", "), rest)
	e.Field = "templateID"
	return e
}

// templateOf returns the id of the template of a session.
func templateOf(v protocol.Session) string {
	switch name := v.Labels[e2bname.LabelTemplate]; {
	case name != "":
		return name
	case v.Template != "":
		return v.Template
	}
	return templateBase
}
