package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Surface configures one surface for chat applications and agents.
type Surface struct {
	Template   string   `yaml:"template" doc:"Template of new sessions. Each tenant that uses it needs a template with this name. Empty means the server's own image."`
	Network    []string `yaml:"network" doc:"Hosts that new sessions may reach, as in egress.allow, which is the most that they reach. Empty means none."`
	IdleDelete Duration `yaml:"idle_delete" min:"1m" max:"8760h" off:"0" doc:"A session without work for this long is deleted; 1m to 8760h. 0 means sessions.idle_delete, which is also the longest time."`
	Timeout    Duration `yaml:"timeout" min:"1s" max:"24h" off:"0" doc:"The longest time of a program or command, 1s to 24h. A request can ask for less. 0 means no limit of the surface."`
	Memory     Size     `yaml:"memory" min:"256MiB" off:"0" doc:"Memory of a new session, at least 256MiB and at most max_limits.memory. 0 means limits.memory."`
	Sessions   int      `yaml:"max_sessions" min:"0" max:"1000" doc:"Sessions that one user of one key may have at one time, at most 1000. Further ones are refused with 429. 0 means no limit of the surface."`
	User       string   `yaml:"user_header" doc:"Header of requests that names the user of the application. Empty: all requests with one key are of one user."`
	Conversing string   `yaml:"conversation_header" doc:"Header of requests that names the conversation. Empty: all requests of a user are one conversation."`
	Labels     []string `yaml:"labels" doc:"Labels of new sessions, as key:value."`
}

// Surfaces are the surfaces whose settings differ from their defaults, by name.
type Surfaces map[string]Surface

// Surface returns the settings of a surface.
func (c *Config) Surface(name string) surfaces.Settings {
	s := c.Surfaces.row(name)
	out := surfaces.Settings{
		Template: s.Template, Network: s.Network, IdleDelete: time.Duration(s.IdleDelete),
		Timeout: time.Duration(s.Timeout), Memory: int64(s.Memory), MaxSessions: s.Sessions,
		UserHeader: s.User, ConversationHeader: s.Conversing, Labels: map[string]string{},
	}
	for _, l := range s.Labels {
		key, value, _ := strings.Cut(l, ":")
		out.Labels[key] = value
	}
	if most := time.Duration(c.Sessions.IdleDelete); most > 0 { // a session may not ask for more
		out.IdleDelete = min(out.IdleDelete, most)
	}
	return out
}

// row returns the settings of a surface as a configuration has them.
func (s Surfaces) row(name string) Surface {
	if r, ok := s[name]; ok {
		return r
	}
	d := surfaces.Defaults(name)
	return Surface{
		IdleDelete: Duration(d.IdleDelete), Timeout: Duration(d.Timeout), User: d.UserHeader,
		Conversing: d.ConversationHeader,
	}
}

// fields returns the settings of a row. Calling Set on a field changes the row.
func (s *Surface) fields(name string) []Field {
	prefix := "surfaces." + name + "."
	return slices.DeleteFunc(fieldsOf(reflect.ValueOf(s).Elem(), prefix), func(f Field) bool {
		return !surfaces.Has(name, strings.TrimPrefix(f.Path, prefix))
	})
}

// rows returns all rows, by name.
func (s Surfaces) rows() map[string]*Surface {
	all := map[string]*Surface{}
	for _, name := range surfaces.Names() {
		r := s.row(name)
		all[name] = &r
	}
	return all
}

// changed returns the rows that differ from their defaults; nil without one.
func changed(rows map[string]*Surface) Surfaces {
	var out Surfaces
	for name, r := range rows {
		if !reflect.DeepEqual(*r, Surfaces{}.row(name)) {
			if out == nil {
				out = Surfaces{}
			}
			out[name] = *r
		}
	}
	return out
}

// String returns the table as Set of its field accepts it; empty without a row.
func (s Surfaces) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		is, normal := s[name], Surfaces{}.row(name)
		was := normal.fields(name)
		var set []string
		for i, f := range is.fields(name) {
			if f.String() != was[i].String() {
				set = append(set, last(f.Path)+": "+yamlValue(f))
			}
		}
		if len(set) > 0 {
			all = append(all, name+": {"+strings.Join(set, ", ")+"}")
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// parseSurfaces reads a table as String writes it.
func parseSurfaces(text string) (Surfaces, error) {
	if text == "" {
		return nil, nil
	}
	c := new(Config)
	err := Parse(c, "the table", []byte("surfaces: "+text))
	return c.Surfaces, err
}

// validate checks the rows. Errors name the setting.
func (s Surfaces) validate(op string) error {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		r := s[name]
		for _, f := range r.fields(name) {
			if err := f.check(op); err != nil {
				return err
			}
		}
		if err := r.validate(op, "surfaces."+name+"."); err != nil {
			return err
		}
	}
	return nil
}

func (s *Surface) validate(op, prefix string) error {
	if _, err := egress.ParseList(prefix+"network", s.Network); err != nil {
		return err
	}
	for setting, header := range map[string]string{
		"user_header": s.User, "conversation_header": s.Conversing,
	} {
		if strings.Trim(strings.ToLower(header), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" ||
			len(header) > 128 || strings.EqualFold(header, "authorization") {
			return fault.Invalid(op, prefix+setting,
				"%.80q is not the name of a header such as X-User-Id", header)
		}
	}
	if len(s.Labels) > protocol.MaxLabels/2 {
		return fault.Invalid(op, prefix+"labels", "has at most %d labels", protocol.MaxLabels/2)
	}
	for _, l := range s.Labels {
		key, value, ok := strings.Cut(l, ":")
		if !ok || key == "" || len(key) > protocol.MaxLabelKey ||
			len(value) > protocol.MaxLabelValue || strings.HasPrefix(key, protocol.ReservedLabels) {
			return fault.Invalid(op, prefix+"labels",
				"%.80q is not a label such as team:research", l)
		}
	}
	return nil
}
