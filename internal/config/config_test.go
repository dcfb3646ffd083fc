package config

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

func load(t *testing.T, file string, environ []string, args ...string) (*Config, error) {
	t.Helper()
	set := flag.NewFlagSet("test", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	flags := AddFlags(set)
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	return Load(flags, environ)
}

func TestPrecedence(t *testing.T) {
	const file = "pool: {size: 3}\nlimits:\n  memory: 512MiB\nlisten: 127.0.0.1:1\n"
	env := []string{"SANDGATE_POOL_SIZE=4", "SANDGATE_LIMITS_MEMORY=2GiB", "UNRELATED=x"}
	c, err := load(t, file, env, "--pool-size", "5")
	if err != nil {
		t.Fatal(err)
	}
	if c.Pool.Size != 5 {
		t.Errorf("pool.size is %d, the flag said 5", c.Pool.Size)
	}
	if c.Limits.Memory != 2<<30 {
		t.Errorf("limits.memory is %v, the environment said 2GiB", c.Limits.Memory)
	}
	if c.Listen != "127.0.0.1:1" {
		t.Errorf("listen is %q, the file said 127.0.0.1:1", c.Listen)
	}
	if c.Sessions.Pause != Duration(time.Minute) || c.Sessions.Lifetime != 0 {
		t.Errorf("idle_pause is %v and lifetime %v, the defaults are 60s and none",
			c.Sessions.Pause, c.Sessions.Lifetime)
	}
	if _, err := load(t, "sessions: {lifetime: 2h, max_lifetime: 1h}", nil); !fault.Is(err,
		fault.InvalidArgument) {
		t.Errorf("a lifetime above the longest: %v", err)
	}
}

// TestZeroMeansOff: a zero in the file is a value, not an absence.
func TestZeroMeansOff(t *testing.T) {
	c, err := load(t, "pool:\n  size: 0\nsessions:\n  idle_pause: 0s\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Pool.Size != 0 || c.Sessions.Pause != 0 {
		t.Errorf("zeros became %d, %v", c.Pool.Size, c.Sessions.Pause)
	}
}

func TestStrict(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"unknown", "listen: 127.0.0.1:1\nbogus: 1\n", "line 2"},
		{"unknown is named", "bogus: 1\n", "bogus"},
		{"near miss", "pool:\n  sise: 2\n", "did you mean pool.size"},
		{"wrong group", "memory: 1GiB\n", "did you mean limits.memory"},
		{"twice", "listen: a:1\nlisten: b:1\n", "line 2"},
		{"not a mapping", "- a\n", "key: value"},
		{"group as value", "pool: 3\n", "pool"},
		{"null", "listen:\n", "must be a text"},
		{"size", "limits:\n  memory: 1GB\n", "line 2"},
		{"duration", "sessions:\n  lifetime: 3 days\n", "not a duration"},
		{"switch", "insecure_listen_without_tls: maybe\n", "neither true nor false"},
		{"number", "pool:\n  size: two\n", "whole number"},
		{"list", "allowed_hosts: one\n", "[a, b]"},
		{"egress host", "egress:\n  allow: [packages.example.org, 0x7f.1]\n", "0x7f.1"},
		{"egress network", "insecure_egress_to_private_networks: [10.1.2.3/8]\n", "10.0.0.0/8 is"},
		{"too small", "limits:\n  memory: 1MiB\n", "256MiB"},
		{"platform", "platform: ptrace\n", "systrap, kvm"},
		{"listen", "listen: here\n", "127.0.0.1:8080"},
		{"relative", "data_dir: here\n", "absolute"},
		{"collector", "tracing: {endpoint: \"localhost:4318\"}\n", "tracing.endpoint"},
		{
			"collector's password", "tracing: {endpoint: \"http://a:b@localhost/\"}\n",
			"tracing.endpoint",
		},
		{"port of TLS", "tls: {listen: 443}\n", "tls.listen"},
		{"sample", "tracing: {sample: 2}\n", "tracing.sample"},
		{"zone", "cluster: {zone: a/b}\n", "cluster.zone"},
		{"long zone", "cluster: {zone: " + strings.Repeat("z", 65) + "}\n", "cluster.zone"},
		{"placement", "cluster: {placement: random}\n", "cluster.placement"},
		{"syntax", "listen: [\n", "line"},
		{"surface", "surfaces: {jupiter: {timeout: 1m}}\n", "surfaces.jupiter"},
		{"setting of a surface", "surfaces:\n  mcp:\n    timeuot: 1m\n", "surfaces.mcp.timeout"},
		{"not of LibreChat", "surfaces: {librechat: {template: x}}\n", "mean librechat.template"},
		{"not of Dify", "surfaces: {dify: {idle_delete: 1h}}\n", "surfaces.dify.idle_delete"},
		{"surface's duration", "surfaces:\n  mcp: {timeout: long}\n", "line 2"},
		{"surface's bound", "surfaces: {mcp: {idle_delete: 1s}}\n", "surfaces.mcp.idle_delete"},
		{"surface's host", "surfaces: {mcp: {network: [0x7f.1]}}\n", "surfaces.mcp.network"},
		{"surface's header", "surfaces: {mcp: {user_header: \"a b\"}}\n", "surfaces.mcp.user_header"},
		{"surface's label", "surfaces: {mcp: {labels: [x]}}\n", "surfaces.mcp.labels"},
		{"surface's null", "surfaces:\n", "surfaces"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.file, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			if fault.KindOf(err) != fault.InvalidArgument {
				t.Errorf("kind is %s", fault.KindOf(err))
			}
		})
	}
}

func TestBadEnvironmentAndFlag(t *testing.T) {
	if _, err := load(t, "", []string{"SANDGATE_POOL_SIZE=x"}); err == nil ||
		!strings.Contains(err.Error(), "SANDGATE_POOL_SIZE") {
		t.Errorf("got %v, want the variable named", err)
	}
	if _, err := load(t, "", nil, "--pool-size=x"); err == nil ||
		!strings.Contains(err.Error(), "pool-size") {
		t.Errorf("got %v, want the flag named", err)
	}
	if _, err := load(t, "", nil, "--config", filepath.Join(t.TempDir(), "none")); !fault.Is(err,
		fault.NotFound) {
		t.Errorf("got %v, want not_found for a named file that is not there", err)
	}
}

// TestEveryFieldFromEverySource sets each field by its flag and its variable.
func TestEveryFieldFromEverySource(t *testing.T) {
	sample := map[string]string{
		"text": "", "list": "a,b", "number": "99", "fraction": "1.5",
		"switch": "true", "size": "300MiB", "duration": "7s",
		"table": "{mcp: {network: [a.example, b.example], idle_delete: 48h}}",
	}
	special := map[string]string{
		"sessions.max_lifetime": "200h", "listen": "127.0.0.1:9",
		"librechat.retention": "48h",
		"cluster.records":     "48h",
		"platform":            "kvm", "log.level": "warn", "log.format": "json", "audit.code": "whole",
		"insecure_egress_to_private_networks": "10.0.0.0/8,fd00::/8",
		"webhooks.allow":                      "10.0.0.0/8,fd00::/8",
		"onlyboxes.export_networks":           "10.0.0.0/8,fd00::/8",
		"egress.resolver":                     "10.0.0.2:53",
		"tls.listen":                          ":443",
		"tracing.endpoint":                    "http://127.0.0.1:4318/v1/traces",
		"tracing.sample":                      "0.5",
		"cluster.zone":                        "dc-1.a",
		"cluster.placement":                   "pack",
		"upgrade.keep":                        "7",
	}
	for _, f := range Fields(Default()) {
		value := sample[f.Type]
		if f.Type == "text" {
			value = "/some/where"
		}
		if s, ok := special[f.Path]; ok {
			value = s
		}
		for source, args := range map[string][2][]string{
			"flag": {nil, {"--" + f.Flag + "=" + value}},
			"env":  {{f.Env + "=" + value}, nil},
		} {
			c, err := load(t, "", args[0], args[1]...)
			if err != nil {
				t.Errorf("%s by %s: %v", f.Path, source, err)
				continue
			}
			for _, g := range Fields(c) {
				want := g.Default
				if g.Path == f.Path {
					want = value
				}
				if g.Type != "list" && g.String() != want && g.Path == f.Path {
					t.Errorf("%s by %s is %q, want %q", f.Path, source, g.String(), want)
				}
			}
		}
		if f.Doc == "" || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: doc must be sentences", f.Path)
		}
	}
}

// TestShowRoundTrip: the output of `config show` is a file with the same meaning.
func TestShowRoundTrip(t *testing.T) {
	want, err := load(t, "allowed_hosts: [a.example, b.example]\nlisten: \"[::1]:80\"\n"+
		"surfaces: {mcp: {labels: [\"a:b c\"], memory: 512MiB}, azure: {idle_delete: 0}}\n",
		[]string{"SANDGATE_LIMITS_CPUS=0.5"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Show(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, b.String(), nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	for _, c := range []*Config{want, got} { // nil and empty mean the same
		c.Origins, c.Private, c.Egress.Allow, c.Egress.Tenants = nil, nil, nil, nil
		c.Webhooks.Allow, c.TLS.Certificates = nil, nil
		c.Onlyboxes = Onlyboxes{Tenant: c.Onlyboxes.Tenant}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	var b bytes.Buffer
	if err := Reference(&b); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(testenv.Path("docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, b.Bytes()) {
		t.Error(
			"docs/configuration.md is out of date; run: go run ./cmd/sandgate config reference > docs/configuration.md")
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "127.8.8.8:80": true, "[::1]:80": true, "localhost:80": true,
		"0.0.0.0:80": false, ":80": false, "[::]:80": false, "10.0.0.1:80": false,
		"localhost.example:80": false, "x": false,
	} {
		if got := (&Config{Listen: address}).Loopback(); got != want {
			t.Errorf("%s: loopback is %v", address, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "7B": 7, "1KiB": 1024,
		"3 MiB": 3 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40,
	} {
		if got, err := ParseSize(text); err != nil || int64(got) != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "1.5GiB", "1GB", "99999999999GiB", "x"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q became %d", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("pool: {size: 3}\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := Default()
		if Parse(c, "fuzz", text) == nil {
			_ = c.Validate()
		}
	})
}
