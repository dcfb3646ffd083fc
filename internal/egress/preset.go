package egress

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// maxSource bounds a file that a preset is read from, in bytes.
const maxSource = 4 << 20

// Presets resolves the names of package managers to the hosts that they download from. It reads
// the environment and the configuration of the package managers on this machine. If these name
// nothing, it takes the default that is written in the package manager's own files, in the image
// of the sandboxes or on this machine.
type Presets struct {
	// Host is the root of this machine's files.
	Host fs.FS
	// Image returns the content of a file of the image. nil means that there is no image.
	Image func(path string) ([]byte, error)
	// Env returns a variable of the server's environment.
	Env func(name string) string
}

// presets are the resolvers by their names. Each returns URLs and patterns.
var presets = map[string]func(*Presets) []string{
	"debian": (*Presets).debian,
	"go":     (*Presets).golang,
	"java":   (*Presets).java,
	"node":   (*Presets).node,
	"php":    (*Presets).php,
	"python": (*Presets).python,
}

// IsPreset reports whether a name in a list is a preset.
func IsPreset(name string) bool { return presets[name] != nil }

// Resolve returns the hosts of a preset as patterns for ParseList.
func (p *Presets) Resolve(name string) ([]string, error) {
	const op = "egress.preset"
	if !IsPreset(name) {
		return nil, fault.New(fault.NotFound, op, "there is no preset %s", name)
	}
	var hosts []string
	for _, source := range presets[name](p) {
		host := patternOf(source)
		if _, err := parsePattern(host); host != "" && err == nil && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 {
		return nil, fault.New(fault.NotFound, op,
			"no package manager for the preset %s is configured or installed: name the hosts instead", name)
	}
	return hosts, nil
}

// Repository returns the URL of the Maven repository that the server's machine is configured for,
// or "".
func (p *Presets) Repository() string {
	if p == nil {
		return ""
	}
	for _, source := range p.java() {
		if strings.HasPrefix(source, "http") {
			return strings.TrimSuffix(source, "/")
		}
	}
	return ""
}

// expand replaces the presets in a list by their hosts.
func (p *Presets) expand(field string, list []string) ([]string, error) {
	var out []string
	for _, text := range list {
		if p == nil || !IsPreset(text) {
			out = append(out, text)
			continue
		}
		hosts, err := p.Resolve(text)
		if err != nil {
			return nil, fault.Invalid("egress.list", field, "%s", fault.PublicOf(err).Message)
		}
		out = append(out, hosts...)
	}
	return out, nil
}

// patternOf returns the pattern for a URL's host, or the text itself if it is a pattern.
func patternOf(source string) string {
	if !strings.Contains(source, "://") {
		return source
	}
	u, err := url.Parse(source)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.Host
}

// python returns pip's indexes.
func (p *Presets) python() []string {
	index := p.words("PIP_INDEX_URL")
	extra := p.words("PIP_EXTRA_INDEX_URL")
	for _, text := range p.configured(p.Env("PIP_CONFIG_FILE"), "/etc/pip.conf",
		"/etc/xdg/pip/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf") {
		index = append(index, setting(text, "index-url")...)
		extra = append(extra, setting(text, "extra-index-url")...)
	}
	// pip keeps its default as the index's address and the domain of the files.
	builtin := p.builtin(
		regexp.MustCompile(
			`(?m)^PyPI = PackageIndex\(\s*"([^"]+)",\s*file_storage_domain="([^"]+)"`),
		"/usr/lib/python3/dist-packages/pip/_internal/models/index.py")
	// An index that is configured as pip's own refers to the same domain of files.
	if len(index) == 0 || len(builtin) > 0 && slices.ContainsFunc(index,
		func(s string) bool { return patternOf(s) == patternOf(builtin[0]) }) {
		index = append(index, builtin...)
	}
	return append(index, extra...)
}

// node returns npm's registries, those of scopes with them.
func (p *Presets) node() []string {
	all := append(p.words("npm_config_registry"), p.words("NPM_CONFIG_REGISTRY")...)
	scoped := regexp.MustCompile(`(?m)^\s*@[^\s:=]+:registry\s*=\s*(\S+)`)
	var scopes []string
	for _, text := range p.configured(p.Env("NPM_CONFIG_USERCONFIG"), "~/.npmrc", "/etc/npmrc",
		"/usr/etc/npmrc", "/usr/local/etc/npmrc") {
		all = append(all, setting(text, "registry")...)
		for _, m := range scoped.FindAllStringSubmatch(text, -1) {
			scopes = append(scopes, m[1])
		}
	}
	if len(all) == 0 {
		const definitions = "/npm/node_modules/@npmcli/config/lib/definitions/definitions.js"
		all = p.builtin(regexp.MustCompile(`'registry', \{\s*default: '([^']+)'`),
			"/usr/local/lib/node_modules"+definitions, "/usr/lib/node_modules"+definitions,
			"/usr/share/nodejs"+definitions)
	}
	return append(all, scopes...)
}

// golang returns the module proxies and the checksum database.
func (p *Presets) golang() []string {
	var all []string
	for _, name := range []string{"GOPROXY", "GOSUMDB"} {
		value := p.Env(name)
		for _, text := range p.configured(p.Env("GOENV"), "~/.config/go/env") {
			value = firstOf(value, setting(text, name))
		}
		value = firstOf(value, p.builtin(regexp.MustCompile(`(?m)^`+name+`=(.*)$`),
			"/usr/local/go/go.env", "/usr/lib/go/go.env"))
		if name == "GOSUMDB" {
			// A name, with a key or not, and an address or not.
			fields := strings.Fields(value)
			if len(fields) == 0 {
				continue
			}
			value, _, _ = strings.Cut(fields[len(fields)-1], "+")
		}
		for _, proxy := range strings.FieldsFunc(value,
			func(r rune) bool { return r == ',' || r == '|' }) {
			if proxy = strings.TrimSpace(proxy); proxy != "direct" && proxy != "off" &&
				!strings.HasPrefix(proxy, "file:") {
				all = append(all, proxy)
			}
		}
	}
	return all
}

// php returns Composer's repositories and the hosts of the archives that the default repository
// refers to.
func (p *Presets) php() []string {
	var all []string
	builtin := true
	for _, text := range p.configured(p.Env("COMPOSER_HOME")+"/config.json",
		"~/.config/composer/config.json", "~/.composer/config.json") {
		var config struct {
			Repositories json.RawMessage `json:"repositories"`
		}
		if json.Unmarshal([]byte(text), &config) != nil {
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(config.Repositories, &list) != nil {
			var named map[string]json.RawMessage
			_ = json.Unmarshal(config.Repositories, &named)
			for name, r := range named {
				builtin = builtin && !disables(name, r)
				list = append(list, r)
			}
		}
		for _, r := range list {
			var repository map[string]json.RawMessage
			_ = json.Unmarshal(r, &repository) // a name that is disabled is false
			for name, value := range repository {
				builtin = builtin && !disables(name, value)
			}
			var address string
			if json.Unmarshal(repository["url"], &address) == nil {
				all = append(all, address)
			}
		}
	}
	if builtin {
		const config = "/usr/share/php/Composer/Config.php"
		all = append(
			all, p.builtin(regexp.MustCompile(`'type' => 'composer',\s*'url' => '([^']+)'`),
				config)...)
		for _, domain := range p.builtin(regexp.MustCompile(`'github-domains' => \['([^']+)'`),
			config) {
			all = append(all, domain, "*."+domain)
		}
	}
	slices.Sort(all)
	return all
}

// disables reports whether an entry in Composer's configuration disables the default repository,
// whose name is packagist with or without a domain.
func disables(name string, value json.RawMessage) bool {
	return strings.HasPrefix(name, "packagist") && string(value) == "false"
}

// java returns Maven's repositories.
func (p *Presets) java() []string {
	all := p.words("MAVEN_REPOSITORY")
	for _, text := range p.configured("~/.m2/settings.xml", "/etc/maven/settings.xml") {
		all = append(all, repositories([]byte(text))...)
	}
	if len(all) > 0 || p.Host == nil {
		return all
	}
	// Maven keeps its default in a project that all others inherit from.
	jars, _ := fs.Glob(p.Host, "usr/share/maven/lib/maven-model-builder-*.jar")
	for _, jar := range jars {
		data, err := p.read(jar)
		if err != nil {
			continue
		}
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			continue
		}
		f, err := z.Open("org/apache/maven/model/pom-4.0.0.xml")
		if err != nil {
			continue
		}
		pom, err := io.ReadAll(io.LimitReader(f, maxSource))
		_ = f.Close()
		if err == nil {
			return repositories(pom)
		}
	}
	return nil
}

// repositories returns the addresses of the mirrors and repositories in a file of Maven's. It
// leaves out mirrors that only block.
func repositories(text []byte) []string {
	type source struct {
		URL     string `xml:"url"`
		Blocked bool   `xml:"blocked"`
	}
	var all []string
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err != nil {
			return all
		}
		start, ok := token.(xml.StartElement)
		if !ok || !slices.Contains([]string{"mirror", "repository", "pluginRepository"},
			start.Name.Local) {
			continue
		}
		var s source
		if err := d.DecodeElement(&s, &start); err != nil {
			return all
		}
		if !s.Blocked {
			all = append(all, strings.TrimSpace(s.URL))
		}
	}
}

// debian returns the sources of apt that are signed with Debian's keys, or that name no keys and
// have a folder of Debian.
func (p *Presets) debian() []string {
	all := append(p.words("SANDGATE_DEBIAN_MIRROR"), p.words("SANDGATE_DEBIAN_SECURITY_MIRROR")...)
	if p.Host == nil || len(all) > 0 {
		return all
	}
	files, _ := fs.Glob(p.Host, "etc/apt/sources.list.d/*")
	address := regexp.MustCompile(`https?://\S+`)
	foreign := regexp.MustCompile(`(?i)signed-by\s*[:=]`)
	for _, file := range append(files, "etc/apt/sources.list") {
		data, err := p.read(file)
		if err != nil || !strings.HasSuffix(file, ".list") && !strings.HasSuffix(file, ".sources") {
			continue
		}
		var lines []string
		for line := range strings.Lines(string(data)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				lines = append(lines, strings.TrimRight(line, "\r\n"))
			}
		}
		entries := lines // one line each
		if strings.HasSuffix(file, ".sources") {
			entries = strings.Split(strings.Join(lines, "\n"), "\n\n")
		}
		for _, entry := range entries {
			own := strings.Contains(entry, "debian-archive-keyring")
			for _, source := range address.FindAllString(entry, -1) {
				if own || !foreign.MatchString(entry) && strings.Contains(source, "/debian") {
					all = append(all, source)
				}
			}
		}
	}
	return all
}

// words splits a variable of the environment.
func (p *Presets) words(name string) []string { return strings.Fields(p.Env(name)) }

// configured returns the texts of the files that exist on this machine. "~" is the user's home.
func (p *Presets) configured(paths ...string) []string {
	var all []string
	for _, path := range paths {
		if rest, ok := strings.CutPrefix(path, "~"); ok {
			path = p.Env("HOME") + rest
		}
		if data, err := p.read(strings.TrimPrefix(path, "/")); err == nil {
			all = append(all, string(data))
		}
	}
	return all
}

// read returns a file of this machine.
func (p *Presets) read(path string) ([]byte, error) {
	if p.Host == nil || !fs.ValidPath(path) {
		return nil, fs.ErrNotExist
	}
	f, err := p.Host.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err == nil && len(data) > maxSource {
		err = errors.New("the file is too long")
	}
	return data, err
}

// builtin returns the groups of a pattern in the first file that has it: in the image, then on
// this machine.
func (p *Presets) builtin(pattern *regexp.Regexp, paths ...string) []string {
	find := func(data []byte, err error) []string {
		if err != nil {
			return nil
		}
		m := pattern.FindSubmatch(data)
		var all []string
		for _, group := range m[min(1, len(m)):] {
			all = append(all, string(group))
		}
		return all
	}
	if p.Image != nil {
		for _, path := range paths {
			if all := find(p.Image(path)); len(all) > 0 {
				return all
			}
		}
	}
	for _, path := range paths {
		if all := find(p.read(strings.TrimPrefix(path, "/"))); len(all) > 0 {
			return all
		}
	}
	return nil
}

// setting returns the values of a key in a text of lines KEY = VALUE. Values continue on lines
// that begin with a blank.
func setting(text, key string) []string {
	var all []string
	in := false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch name, value, ok := strings.Cut(trimmed, "="); {
		case trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";"):
		case in && strings.TrimLeft(line, " \t") != line:
			all = append(all, strings.Fields(trimmed)...)
		case ok && strings.TrimSpace(name) == key:
			in = true
			all = append(all, strings.Fields(value)...)
		default:
			in = false
		}
	}
	return all
}

// firstOf returns a value, or the first of others if the value is empty.
func firstOf(value string, others []string) string {
	if value == "" && len(others) > 0 {
		return others[0]
	}
	return value
}
