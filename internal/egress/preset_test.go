package egress

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandgate/sandgate/protocol/fault"
)

// builtins are files of package managers with their defaults, as in the image.
var builtins = map[string]string{
	"/usr/lib/python3/dist-packages/pip/_internal/models/index.py": "PyPI = PackageIndex(\"https://pip.example/\", file_storage_domain=\"files.pip.example\")\n" +
		"TestPyPI = PackageIndex(\n    \"https://test.pip.example/\", file_storage_domain=\"x\"\n)\n",
	"/usr/local/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js": "  registry: new Definition('registry', {\n    default: 'https://npm.example/',\n    type: url,",
	"/usr/local/go/go.env":               "# GOPROXY=https://no.example\nGOPROXY=https://proxy.example|file:///srv/modules|direct\nGOSUMDB=sum.example\n",
	"/usr/share/php/Composer/Config.php": "'github-domains' => ['git.example'],\n'packagist' => [\n 'type' => 'composer',\n 'url' => 'https://composer.example',\n",
}

// mavenJar is the part of Maven that has its default repository.
func mavenJar(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	w, err := z.Create("org/apache/maven/model/pom-4.0.0.xml")
	if err == nil {
		_, err = w.Write(
			[]byte(
				`<project><repositories><repository><id>central</id><url>https://maven.example/maven2</url></repository></repositories></project>`))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestPresetsResolve(t *testing.T) {
	image := func(path string) ([]byte, error) {
		if text, ok := builtins[path]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}
	jar := string(mavenJar(t))
	for _, c := range []struct {
		name, preset string
		env, files   map[string]string
		image        bool
		want         string // "" for an error
	}{
		{
			name: "the image's pip", preset: "python", image: true,
			want: "pip.example files.pip.example",
		},
		{
			name: "pip.conf", preset: "python", image: true,
			want: "mirror.example:8443 extra.example more.example",
			files: map[string]string{
				"etc/pip.conf": "[global]\nindex-url = https://me:secret@mirror.example:8443/simple\nextra-index-url =\n    https://extra.example/\n    https://more.example/\ntimeout = 3\n",
			},
		},
		{
			name: "an index of pip's own", preset: "python", image: true,
			want: "pip.example files.pip.example",
			env:  map[string]string{"PIP_INDEX_URL": "https://pip.example/simple"},
		},
		{
			name: "a further index only", preset: "python", image: true,
			want: "pip.example files.pip.example extra.example",
			env:  map[string]string{"PIP_EXTRA_INDEX_URL": "https://extra.example"},
		},
		{name: "no pip", preset: "python"},
		{name: "the image's npm", preset: "node", image: true, want: "npm.example"},
		{
			name: "npmrc", preset: "node", image: true, want: "mirror.example scope.example",
			env: map[string]string{"HOME": "/home/op"},
			files: map[string]string{
				"home/op/.npmrc": "registry=https://mirror.example/npm/\n@acme:registry=https://scope.example\n//mirror.example/:_authToken=x\n",
			},
		},
		{name: "the image's go", preset: "go", image: true, want: "proxy.example sum.example"},
		{
			name: "go's environment", preset: "go", image: true,
			want: "a.example b.example:81 db.example",
			env: map[string]string{
				"GOPROXY": "https://a.example|http://b.example:81,off",
				"GOSUMDB": "name+1234+key https://db.example",
			},
		},
		{
			name: "go without checksums", preset: "go", image: true, want: "proxy.example",
			env: map[string]string{"GOSUMDB": "off"},
		},
		{
			name: "the image's composer", preset: "php", image: true,
			want: "*.git.example git.example composer.example",
		},
		{
			name: "composer's repositories", preset: "php", image: true, want: "c.example",
			env: map[string]string{"HOME": "/r"},
			files: map[string]string{
				"r/.config/composer/config.json": `{"repositories": [{"type": "composer", "url": "https://c.example/x"}, {"packagist": false}]}`,
			},
		},
		{
			name: "maven on this machine", preset: "java",
			files: map[string]string{"usr/share/maven/lib/maven-model-builder-3.x.jar": jar},
			want:  "maven.example",
		},
		{
			name: "maven's settings", preset: "java", want: "mirror.example",
			files: map[string]string{
				"etc/maven/settings.xml": `<settings xmlns="urn:x"><mirrors><mirror><url>https://mirror.example/m</url></mirror>` +
					`<mirror><url>http://0.0.0.0/</url><blocked>true</blocked></mirror><!-- <mirror><url>https://no.example</url></mirror> --></mirrors></settings>`,
				"usr/share/maven/lib/maven-model-builder-3.x.jar": jar,
			},
		},
		{name: "no maven", preset: "java", image: true},
		{
			name: "apt", preset: "debian", want: "deb.example security.example old.example",
			files: map[string]string{
				"etc/apt/sources.list.d/debian.sources": "Types: deb\n# http://no.example/x\nURIs: http://deb.example/debian\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n" +
					"Types: deb\nURIs: http://security.example/debian-security\n\nTypes: deb\nURIs: https://foreign.example\nSigned-By: /x.gpg\n",
				"etc/apt/sources.list": "deb http://old.example/debian trixie main\ndeb [signed-by=/y.gpg] https://other.example x main\n",
			},
		},
		{name: "no apt", preset: "debian"},
		{name: "no such preset", preset: "cobol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := fstest.MapFS{}
			for path, text := range c.files {
				host[path] = &fstest.MapFile{Data: []byte(text)}
			}
			p := &Presets{Host: host, Env: func(name string) string { return c.env[name] }}
			if c.image {
				p.Image = image
			}
			got, err := p.Resolve(c.preset)
			if strings.Join(got, " ") != c.want || (err != nil) != (c.want == "") {
				t.Errorf("got %q, %v, expected %q", got, err, c.want)
			}
			if err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("the error is %v, expected not_found", err)
			}
		})
	}
}

func TestGateResolvesPresets(t *testing.T) {
	p := &Presets{Env: func(string) string { return "" }, Image: func(path string) ([]byte, error) {
		if text, ok := builtins[path]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}}
	g, err := New(Config{Allow: []string{"node", "git.example:22"}, Presets: p})
	if err != nil || strings.Join(g.Allowed().Strings(), " ") != "npm.example git.example:22" {
		t.Fatalf("got %v, %v", g, err)
	}
	list, err := g.ParseList("network.allow", []string{"node"})
	if err != nil || strings.Join(list.Strings(), " ") != "npm.example" {
		t.Errorf("got %v, %v", list, err)
	}
	if _, beyond := g.Allowed().Beyond(list); beyond {
		t.Error("the preset is beyond the server's list, which has it")
	}
	list, err = g.ParseList("network.allow", []string{"go"})
	if _, beyond := g.Allowed().Beyond(list); err != nil || !beyond {
		t.Errorf("a preset that the server does not allow is not beyond its list: %v, %v", list,
			err)
	}
	if _, err := g.ParseList("network.allow", []string{"java"}); !fault.Is(err,
		fault.InvalidArgument) {
		t.Errorf("a preset without hosts gave %v", err)
	}
	if _, err := New(Config{Allow: []string{"java"}, Presets: p}); !fault.Is(err,
		fault.InvalidArgument) {
		t.Errorf("a server with a preset without hosts gave %v", err)
	}
}
