package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestHostHasOneForm compares the form of hosts, and rejects other forms of an address.
func TestHostHasOneForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"packages.example.org":  "packages.example.org",
		"Packages.Example.org.": "packages.example.org",
		"xn--bcher-kva.example": "xn--bcher-kva.example", "a_b.example": "a_b.example",
		"192.0.2.1": "192.0.2.1", "2001:DB8:0::1": "2001:db8::1", "[2001:db8::1]": "2001:db8::1",
		"0x7f.example": "0x7f.example", "registry": "registry",
	} {
		if got, err := Host(in); err != nil || got != want {
			t.Errorf("%q is %q, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", ".", "..", "a..b", ".a", "a b", "a\tb", "a\x00b", "a%2eb", "user@a", "a/b", "a?b",
		"a#b", "a\\b", "*", "-a", "a-", "bücher.example", "ⓛocalhost", "a。b",
		"2130706433", "0x7f000001", "0x7f.1", "0x", "127.1", "0177.0.0.1", "127.0.0.01",
		"1.2.3.4.5", "1.2.3.256", "example.1", "0x7F.0x0.0x0.0x1",
		"::ffff:127.0.0.1", "[::ffff:7f00:1]", "fe80::1%eth0", "[127.0.0.1]", "[a]", "[::1", "::1]",
		"1:2", "a:b",
		strings.Repeat("a", 64), strings.Repeat("a.", 126) + "ab",
	} {
		if got, err := Host(in); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%q is %q, %v", in, got, err)
		}
	}
}

// TestLists compares which hosts lists allow.
func TestLists(t *testing.T) {
	t.Parallel()
	l, err := ParseList("allow", []string{
		"packages.example.org", "*.files.example.org:443",
		"git.example:22", "192.0.2.7:8080", "[2001:db8::1]:443",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(l.Strings(),
		" "); got != "packages.example.org *.files.example.org:443 git.example:22 192.0.2.7:8080 [2001:db8::1]:443" {
		t.Error(got)
	}
	for _, c := range []struct {
		host string
		port int
		want bool
	}{
		{"packages.example.org", 443, true},
		{"packages.example.org", 80, true},
		{"PACKAGES.EXAMPLE.ORG.", 443, true},
		{"packages.example.org", 22, false},
		{"packages.example.org", 8443, false},
		{"evil-packages.example.org", 443, false},
		{"packages.example.org.evil.example", 443, false},
		{"www.packages.example.org", 443, false},
		{"a.files.example.org", 443, true},
		{"b.a.files.example.org", 443, true},
		{"a.files.example.org", 80, false},
		{"files.example.org", 443, false},
		{"evilfiles.example.org", 443, false},
		{"git.example", 22, true},
		{"git.example", 443, false},
		{"192.0.2.7", 8080, true},
		{"192.0.2.7", 80, false},
		{"2001:db8:0::1", 443, true},
	} {
		target, err := ParseTarget(c.host, c.port)
		if err != nil || l.Allows(target) != c.want {
			t.Errorf("%s:%d is allowed: %v, %v", c.host, c.port, !c.want, err)
		}
	}
	if all, _ := ParseList("allow", []string{"*"}); !all.Allows(Target{"a.example", 443}) ||
		all.Allows(Target{"a.example", 25}) {
		t.Error("* is not all hosts at the usual ports")
	}
	if (List{}).Allows(Target{"a.example", 443}) {
		t.Error("the empty list allows something")
	}
	for _, bad := range []string{
		"", "*.", "**", "*.*", "a*.example", "a.*.example",
		"https://a.example", "a.example/", "a.example:0", "a.example:65536", "a.example:",
		"a.example:080", "*.127.0.0.1", "127.1", "0x7f.1:80", "a@b", ":80", "[::1", "::1:",
		"bücher.example",
	} {
		if l, err := ParseList("allow", []string{bad}); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%q is %v, %v", bad, l, err)
		}
	}
	if _, err := ParseList("allow", make([]string, MaxPatterns+1)); !fault.Is(err,
		fault.InvalidArgument) {
		t.Error(err)
	}
}

// TestListBeyond compares the lists of a session and a server.
func TestListBeyond(t *testing.T) {
	t.Parallel()
	parse := func(s string) List {
		l, err := ParseList("allow", strings.Fields(s))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, c := range []struct{ server, asked, beyond string }{
		{"*", "a.example *.b.example", ""},
		{"*", "a.example:22", "a.example:22"},
		{"*", "*", ""},
		{"a.example", "*", "*"},
		{"a.example", "a.example:80 a.example:443 a.example", ""},
		{"a.example:443", "a.example", "a.example"},
		{"a.example:443 a.example:80", "a.example", ""},
		{"*.example", "a.example *.a.example *.example", ""},
		{"*.example", "example", "example"},
		{"*.a.example", "*.example", "*.example"},
		{"", "a.example", "a.example"},
	} {
		p, some := parse(c.server).Beyond(parse(c.asked))
		if some != (c.beyond != "") || some && p.String() != c.beyond {
			t.Errorf("server list %q, request %q: the list does not allow %q", c.server, c.asked,
				p.String())
		}
	}
}

// TestPublicAddresses checks addresses that are not public.
func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1",
		"100.128.0.1", "198.20.0.1", "2606:4700::1111", "2a00::1",
	} {
		if !public(netip.MustParseAddr(a)) {
			t.Error(a, "is not public")
		}
	}
	for _, a := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1",
		"127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1",
		"203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::ffff:1.1.1.1", "::1.1.1.1", "64:ff9b::101:101", "64:ff9b:1::1", "100::1",
		"fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
		"2001::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "4000::1", "5f00::1",
	} {
		if public(netip.MustParseAddr(a)) {
			t.Error(a, "is public")
		}
	}
}

// serve runs an outside host: it sends a greeting and closes the connection.
func serve(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("hello"))
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().(*net.TCPAddr).Port
}

// gate returns a gate whose names are resolved by the test.
func gate(t *testing.T, allow, private string, lookup func(string) []string) *Gate {
	t.Helper()
	c := Config{Allow: strings.Fields(allow), Timeout: 5 * time.Second}
	for _, p := range strings.Fields(private) {
		c.Private = append(c.Private, netip.MustParsePrefix(p))
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	g.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		var out []netip.Addr
		for _, a := range lookup(host) {
			out = append(out, netip.MustParseAddr(a))
		}
		if out == nil {
			return nil, &net.DNSError{Name: host, IsNotFound: true, Err: "no such host"}
		}
		return out, nil
	}
	return g
}

// TestDialResolvesOnce resolves a name to another address each time. The address that was checked is
// dialled.
func TestDialResolvesOnce(t *testing.T) {
	t.Parallel()
	port := serve(t)
	asked := 0
	answers := []string{"127.0.0.1", "169.254.169.254"}
	g := gate(t, "* *:"+itoa(port), "127.0.0.0/8",
		func(string) []string { asked++; return answers[asked-1 : asked] })
	c, address, err := g.Dial(t.Context(), Rules{Allow: g.Allowed()}, Target{"rebinds.example", port})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if asked != 1 || address != "127.0.0.1" {
		t.Errorf("resolved %d times, and dialled %s", asked, address)
	}
	if c, address, err = g.Dial(t.Context(), Rules{Allow: g.Allowed()},
		Target{"rebinds.example", port}); !fault.Is(err, fault.PermissionDenied) {
		t.Errorf("%v to %s, %v", c, address, err)
	}
}

func itoa(n int) string { return Target{"", n}.String()[1:] }

// TestDialDenies checks the reasons for which targets are denied.
func TestDialDenies(t *testing.T) {
	t.Parallel()
	port := serve(t)
	names := map[string][]string{
		"inside.example": {"127.0.0.1"}, "cname.example": {"10.1.2.3"},
		"meta.example": {"169.254.169.254"}, "mapped.example": {"::ffff:127.0.0.1"},
		"nat.example": {"64:ff9b::7f00:1"}, "both.example": {"127.0.0.1", "192.168.0.1"},
		"own.example": {"8.8.4.4"},
	}
	g := gate(t, "* *:"+itoa(port)+" 127.0.0.1:"+itoa(port), "",
		func(host string) []string { return names[host] })
	g.own = func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("8.8.4.4")} }
	narrow, _ := ParseList("allow", []string{"inside.example:" + itoa(port)})
	for _, c := range []struct {
		list   List
		target Target
		kind   fault.Kind
		says   string
	}{
		{g.Allowed(), Target{"inside.example", 25}, fault.PermissionDenied, "egress.allow"},
		{narrow, Target{"cname.example", port}, fault.PermissionDenied, "network.allow"},
		{nil, Target{"inside.example", port}, fault.PermissionDenied, "network.allow"},
		{
			g.Allowed(),
			Target{"inside.example", port},
			fault.PermissionDenied,
			"insecure_egress_to_private_networks",
		},
		{
			g.Allowed(),
			Target{"127.0.0.1", port},
			fault.PermissionDenied,
			"insecure_egress_to_private_networks",
		},
		{g.Allowed(), Target{"cname.example", 443}, fault.PermissionDenied, "cname.example:443"},
		{g.Allowed(), Target{"meta.example", 80}, fault.PermissionDenied, ""},
		{g.Allowed(), Target{"mapped.example", port}, fault.PermissionDenied, ""},
		{g.Allowed(), Target{"nat.example", port}, fault.PermissionDenied, ""},
		{g.Allowed(), Target{"both.example", port}, fault.PermissionDenied, ""},
		{g.Allowed(), Target{"own.example", port}, fault.PermissionDenied, ""},
		{g.Allowed(), Target{"nowhere.example", port}, fault.NotFound, "nowhere.example"},
	} {
		conn, _, err := g.Dial(t.Context(), Rules{Allow: c.list}, c.target)
		if !fault.Is(err, c.kind) || !strings.Contains(fault.PublicOf(err).Message, c.says) {
			t.Errorf("%s: %v, %v", c.target, conn, err)
		}
	}
	g = gate(t, "*:"+itoa(port), "127.0.0.1/32",
		func(string) []string { return []string{"10.0.0.1", "127.0.0.1"} })
	c, address, err := g.Dial(t.Context(), Rules{Allow: g.Allowed()}, Target{"mixed.example", port})
	if err != nil || address != "127.0.0.1" {
		t.Fatalf("%s, %v", address, err)
	}
	c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := g.Dial(ctx, Rules{Allow: g.Allowed()}, Target{"mixed.example", port}); err == nil ||
		!errors.Is(err, context.Canceled) && !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

// FuzzParseList checks the patterns that ParseList accepts: the text of a pattern is parsed as the
// same pattern, and no address in another form is accepted.
func FuzzParseList(f *testing.F) {
	for _, s := range []string{
		"packages.example.org", "*.a.example:443", "*", "*:8080", "[::1]:80",
		"::1", "127.1", "0x7f.1", "a..b", "*.*", "a@b:80", "1.2.3.4:80", "é.example",
		"a.example.:80",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseList("allow", []string{s})
		if err != nil {
			if !fault.Is(err, fault.InvalidArgument) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		text := l.Strings()[0]
		again, err := ParseList("allow", []string{text})
		if err != nil || again[0] != l[0] {
			t.Fatalf("%q reads as %q, and that as %v, %v", s, text, again, err)
		}
		if p, some := l.Beyond(again); some {
			t.Errorf("%q is beyond itself: %s", s, p)
		}
	})
}

// FuzzHost checks that a host has one form, and that no name is an address for programs that read
// numbers as C does.
func FuzzHost(f *testing.F) {
	for _, s := range []string{
		"packages.example.org", "127.0.0.1", "0x7f.0.0.1", "2130706433",
		"[::1]", "::ffff:1.2.3.4", "A.B.", "a\x00", "xn--a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := Host(s)
		if err != nil {
			return
		}
		if again, err := Host(name); err != nil || again != name {
			t.Fatalf("%q is %q, which is %q, %v", s, name, again, err)
		}
		if _, err := netip.ParseAddr(name); err == nil {
			return
		}
		last := name[strings.LastIndexByte(name, '.')+1:]
		if strings.Trim(last, "0123456789") == "" || strings.ToLower(name) != name ||
			strings.ContainsAny(name, " @/:%\\[]*") {
			t.Errorf("%q is taken for the name %q", s, name)
		}
	})
}

// TestDeniedNetworks checks that a name and an address in a denied network are not reached, in any
// spelling of the address, and that others are.
func TestDeniedNetworks(t *testing.T) {
	deny, err := ParseNetworks("deny", []string{"192.0.2.0/24", "2001:db8::1", "::ffff:198.51.100.1"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Config{Allow: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	g.lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.9")}, nil
	}
	rules := Rules{Allow: g.Allowed(), Deny: deny}
	for _, host := range []string{
		"name.example", "192.0.2.255", "2001:db8::1", "198.51.100.1",
	} {
		target, err := ParseTarget(host, 80)
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		_, address, err := g.Dial(t.Context(), rules, target)
		if p := fault.PublicOf(err); p.Kind != fault.PermissionDenied ||
			p.Cause != fault.CauseSessionNetwork || address == "" {
			t.Errorf("%s: %q, %v", host, address, err)
		}
	}
	for host, allowed := range map[string]bool{
		"192.0.2.1": false, "192.0.3.1": true, "name.example": true, "2001:db8::2": true,
	} {
		if got := rules.Allows(Target{host, 80}); got != allowed {
			t.Errorf("%s: %t", host, got)
		}
	}
	for _, wrong := range []string{"example.org", "192.0.2.0/33", "fe80::1%eth0", ""} {
		if _, err := ParseNetworks("deny", []string{wrong}); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
