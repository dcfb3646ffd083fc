package config

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/protocol/fault"
)

// MaxFile is the maximum size of a configuration file in bytes.
const MaxFile = 1 << 20

// Default returns the configuration without any settings.
func Default() *Config {
	c := new(Config)
	for _, f := range Fields(c) {
		if f.Default == "" {
			continue
		}
		if err := f.Set(f.Default); err != nil {
			// A default is part of the program. A test sets them all.
			panic("config: default of " + f.Path + ": " + err.Error())
		}
	}
	return c
}

// Flags holds the settings of a command line. It keeps them as text until Load has read the other
// sources.
type Flags struct {
	// File is the value of --config.
	File string
	set  map[string]string
}

// flagValue holds one flag's text. It makes the flag package print defaults and accept switches
// without a value.
type flagValue struct {
	field Field
	flags *Flags
}

func (v *flagValue) String() string {
	if v.flags == nil {
		return ""
	}
	return v.field.Default
}
func (v *flagValue) IsBoolFlag() bool { return v.field.Type == "switch" }
func (v *flagValue) Set(text string) error {
	// Set a scratch configuration, so that an error names the flag.
	if err := v.field.Set(text); err != nil {
		return err
	}
	v.flags.set[v.field.Path] = text
	return nil
}

// AddFlags defines --config and a flag for each setting.
func AddFlags(set *flag.FlagSet) *Flags {
	flags := &Flags{set: make(map[string]string)}
	set.StringVar(&flags.File, "config", "", "configuration `file`; default "+DefaultFile+
		" if it exists")
	for _, f := range Fields(Default()) {
		set.Var(&flagValue{field: f, flags: flags}, f.Flag, "`"+f.Type+"`  "+f.Doc)
	}
	return flags
}

// Load reads the file, then the environment, then the flags, each overriding the one before, and
// validates the result. environ has the format of os.Environ. flags may be nil.
func Load(flags *Flags, environ []string) (*Config, error) {
	c := Default()
	env := make(map[string]string, len(environ))
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	if flags == nil {
		flags = &Flags{}
	}
	file, named := flags.File, flags.File != ""
	if !named && env["SANDGATE_CONFIG"] != "" {
		file, named = env["SANDGATE_CONFIG"], true
	}
	if !named {
		file = DefaultFile
	}
	if err := loadFile(c, file); err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	for _, f := range Fields(c) {
		if text, ok := env[f.Env]; ok {
			if err := f.Set(text); err != nil {
				return nil, fault.Invalid("config.environment", f.Env, "%v", err)
			}
		}
		if text, ok := flags.set[f.Path]; ok {
			if err := f.Set(text); err != nil {
				return nil, fault.Invalid("config.flags", "--"+f.Flag, "%v", err)
			}
		}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

func loadFile(c *Config, path string) error {
	const op = "config.file"
	info, err := os.Stat(path)
	if err != nil {
		return &fault.Error{
			Kind: fault.NotFound, Op: op,
			Message: "cannot read the configuration file " + path, Err: err,
		}
	}
	if info.Size() > MaxFile {
		return fault.Invalid(op, path, "has %d bytes, the limit is %d", info.Size(), MaxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return &fault.Error{
			Kind: fault.PermissionDenied, Op: op,
			Message: "cannot read the configuration file " + path, Err: err,
		}
	}
	return Parse(c, path, text)
}

// Parse sets in c the settings of the YAML text. Errors contain name, the key and its line.
func Parse(c *Config, name string, text []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fault.Invalid("config.file", name, "%v", err)
	}
	if len(doc.Content) == 0 {
		return nil // empty, or only comments
	}
	p := parser{name: name, fields: make(map[string]Field), groups: make(map[string]bool)}
	for _, f := range Fields(c) {
		if f.Type != "table" {
			p.add(f)
		}
	}
	rows := c.Surfaces.rows()
	for name, r := range rows {
		for _, f := range r.fields(name) {
			p.add(f)
		}
	}
	if err := p.mapping(doc.Content[0], ""); err != nil {
		return err
	}
	c.Surfaces = changed(rows)
	return nil
}

type parser struct {
	name   string
	fields map[string]Field
	groups map[string]bool
}

func (p *parser) add(f Field) {
	p.fields[f.Path] = f
	for i, r := range f.Path {
		if r == '.' {
			p.groups[f.Path[:i]] = true
		}
	}
}

func (p *parser) fail(n *yaml.Node, key, format string, args ...any) error {
	e := fault.Invalid("config.file", key, format, args...)
	e.Message = p.name + " line " + strconv.Itoa(n.Line) + ": " + e.Message
	return e
}

func (p *parser) mapping(n *yaml.Node, prefix string) error {
	if n.Kind != yaml.MappingNode {
		if prefix == "" {
			return p.fail(n, "", "the file must hold settings as key: value")
		}
		return p.fail(n, strings.TrimSuffix(prefix, "."),
			"must hold settings as key: value below it")
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := prefix + key.Value
		if seen[path] {
			return p.fail(key, path, "is set twice")
		}
		seen[path] = true
		var err error
		if f, ok := p.fields[path]; ok {
			err = p.field(f, value)
		} else if p.groups[path] {
			err = p.mapping(value, path+".")
		} else if near := p.nearest(path); near != "" {
			err = p.fail(key, path, "there is no such setting; did you mean %s?", near)
		} else {
			err = p.fail(key, path,
				"there is no such setting; `sandgate config reference` lists them")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) field(f Field, n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if f.Type == "list" && n.Kind == yaml.SequenceNode {
		items := []string{}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || strings.Contains(item.Value, ",") {
				return p.fail(item, f.Path, "an item must be plain text without a comma")
			}
			items = append(items, item.Value)
		}
		return f.Set(strings.Join(items, ","))
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return p.fail(n, f.Path, "must be a %s", f.Type)
	}
	if f.Type == "list" {
		return p.fail(n, f.Path, "must be a list: [a, b]")
	}
	if err := f.Set(n.Value); err != nil {
		return p.fail(n, f.Path, "%v", err)
	}
	return nil
}

// nearest returns the setting whose name is at most two edits away, or whose last part is the given
// name.
func (p *parser) nearest(path string) string {
	last := path[strings.LastIndexByte(path, '.')+1:]
	best, bestDistance := "", 3
	for known := range p.fields {
		d := distance(path, known)
		if strings.HasSuffix(known, "."+last) {
			d = 1
		}
		if d < bestDistance || d == bestDistance && best != "" && known < best {
			best, bestDistance = known, d
		}
	}
	return best
}

// distance returns the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
