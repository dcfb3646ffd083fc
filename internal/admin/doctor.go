package admin

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/profile"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/internal/server"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Skipped is the status of a check that could not be made.
const Skipped = gvisor.Status("skip")

// Doctor checks this machine and the server.
type Doctor struct {
	Config *config.Config
	// Connect returns a client for the server.
	Connect func() (*wire.Client, error)
	// Report prints findings.
	Report func(...gvisor.Finding)
}

// Run makes all checks and reports each result.
func (d *Doctor) Run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	d.Report(d.runsc(ctx), d.image(), d.token())
	if d.Config.Cluster.Blobs != "" {
		d.Report(d.blobs(ctx))
	}
	if d.Config.Cluster.Redis != "" {
		d.Report(d.directory(ctx))
	}
	d.Report(certificates(d.Config, time.Now())...)
	d.Report(clusterCertificates(d.Config, time.Now())...)
	d.Report(portsDomain(d.Config)...)
	if d.Config.E2B != "" {
		d.Report(newDomainCheck().run(ctx, d.Config.E2B)...)
	}
	d.machine(ctx)
	d.Report(d.editions(ctx)...)
	d.server(ctx)
}

func finding(name string, status gvisor.Status, repair, format string, args ...any) gvisor.Finding {
	return gvisor.Finding{
		Name: name, Status: status, What: fmt.Sprintf(format, args...),
		Repair: repair,
	}
}

func (d *Doctor) runsc(ctx context.Context) gvisor.Finding {
	path := d.Config.RunscPath()
	const repair = "make build, or name it with --runsc"
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return finding("runsc", gvisor.Fail, repair, "there is none at %s", path)
	case info.Mode()&0o111 == 0:
		return finding("runsc", gvisor.Fail, "chmod 755 "+path, "%s cannot be executed", path)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return finding("runsc", gvisor.Fail, repair, "%s does not start: %v", path, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return finding("runsc", gvisor.OK, "", "%s (%s)", path, first)
}

func (d *Doctor) image() gvisor.Finding {
	path := d.Config.ImagePath()
	all, err := server.ReadLanguages(path)
	if err == nil {
		_, err = server.ImageEnv(path)
	}
	if err != nil {
		return finding("image", gvisor.Fail, "make build, or name it with --image", "%s",
			console.ErrorText(err))
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	return finding("image", gvisor.OK, "", "%s with %s", path, strings.Join(names, ", "))
}

func (d *Doctor) token() gvisor.Finding {
	path := d.Config.TokenFile()
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return finding("token", gvisor.Warn, "sandgate serve makes it on its first start",
			"there is none at %s yet", path)
	case os.IsPermission(err):
		return finding("token", Skipped, "", "%s cannot be seen by this user", filepath.Dir(path))
	case err != nil:
		return finding("token", gvisor.Fail, "look at "+path, "%v", err)
	case info.Mode().Perm()&0o077 != 0:
		return finding("token", gvisor.Fail, "chmod 600 "+path,
			"%s can be read by users other than its owner", path)
	}
	return finding("token", gvisor.OK, "", "%s", path)
}

// blobs writes an object to the blob store, reads it and deletes it.
func (d *Doctor) blobs(ctx context.Context) gvisor.Finding {
	const name = "blob store"
	where := d.Config.Cluster.Blobs
	if d.Config.Cluster.S3Endpoint != "" {
		where += " at " + d.Config.Cluster.S3Endpoint
	}
	if os.Geteuid() != 0 {
		return finding(name, Skipped, "sudo sandgate doctor",
			"only the node, which runs as root, can read %s", where)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	store, err := server.OpenKnownBlobs(d.Config)
	if err == nil {
		err = blob.Try(ctx, store)
	}
	if err != nil {
		return finding(name, gvisor.Fail,
			"check cluster.blobs and, for a bucket, cluster.s3_endpoint, s3_region and s3_credentials_file", "%s: %s", where, console.ErrorText(err))
	}
	return finding(name, gvisor.OK, "", "%s stores, returns and removes an object", where)
}

// machine checks the requirements of sandboxes, and boots one.
func (d *Doctor) machine(ctx context.Context) {
	if os.Geteuid() != 0 {
		d.Report(finding("machine", Skipped, "sudo sandgate doctor",
			"the kernel, the cgroups and a sandbox's boot cannot be checked without root"))
		return
	}
	var probe *gvisor.Spec
	if s, err := server.SandboxSpec(d.Config); err == nil {
		s.Args = []string{"/bin/true"}
		probe = &s
	}
	runsc := d.Config.RunscPath()
	if os.Geteuid() == 0 {
		if copied, err := reachableRunsc(runsc,
			filepath.Join(d.Config.DataDir, "bin")); err == nil {
			runsc = copied
		}
	}
	d.Report(gvisor.CheckHost(ctx, gvisor.Config{
		Runsc: runsc, StateDir: d.Config.StateDir(),
		Platform: d.Config.Platform,
	}, probe)...)
	d.Report(sharedMemory(d.Config.Pool.Shared, d.Config.DataDir, unix.Statfs))
	if probe == nil {
		d.Report(finding("boot", Skipped, "repair the image first",
			"no sandbox was booted, because there is no image"))
	}
	if _, name, err := server.GatewayUser(d.Config); err != nil {
		d.Report(finding("gateway user", gvisor.Fail,
			"set gateway_user to a system user that exists", "%s", console.ErrorText(err)))
	} else if name == "nobody" && d.Config.User == "" {
		d.Report(finding("gateway user", gvisor.Warn,
			"useradd --system --no-create-home --shell /usr/sbin/nologin sandgate",
			"there is no user sandgate; the gateway runs as nobody, which other services may use too"))
	} else {
		d.Report(finding("gateway user", gvisor.OK, "", "%s", name))
	}
}

// server checks the running server, or whether one could start.
func (d *Doctor) server(ctx context.Context) {
	c, err := d.Connect()
	if err != nil {
		d.Report(finding("profile", gvisor.Fail, "repair or remove ~/"+profile.Path+
			"; sandgate serve writes it", "%s", console.ErrorText(err)))
		return
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := c.Health(short); err != nil {
		if !fault.Is(err, fault.Unavailable) || !d.portFree() {
			d.Report(finding("server", gvisor.Fail,
				"check its log; if another program listens there, choose another address with --listen", "%s answers: %s", c.URL(), console.ErrorText(err)))
			return
		}
		d.Report(finding("port", gvisor.OK, "", "%s is free", d.Config.Listen),
			finding("server", gvisor.Warn, "sudo sandgate serve", "none runs at %s", c.URL()))
		return
	}
	d.Report(finding("server", gvisor.OK, "", "runs at %s", c.URL()))
	if _, err := c.Describe(short); err != nil {
		d.Report(finding("sign-in", gvisor.Fail, "start the server again, which writes ~/"+
			profile.Path+", or set SANDGATE_TOKEN", "%s", console.ErrorText(err)))
		return
	}
	d.Report(finding("sign-in", gvisor.OK, "", "the token is accepted"), d.oneCell(ctx, c))
}

// oneCell runs code through the whole server.
func (d *Doctor) oneCell(ctx context.Context, c *wire.Client) gvisor.Finding {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	took, err := OneCell(ctx, c)
	switch {
	case fault.Is(err, fault.Exhausted):
		return finding("one cell", gvisor.Warn,
			"end sessions (sandgate session list, sandgate session delete) or raise sessions.max",
			"all capacity is in use")
	case err != nil:
		return finding("one cell", gvisor.Fail, "check the server's log", "%s",
			console.ErrorText(err))
	}
	return finding("one cell", gvisor.OK, "", "print(6 * 7) in a new sandbox took %s", took)
}

func (d *Doctor) portFree() bool {
	ln, err := net.Listen("tcp", d.Config.Listen)
	if err != nil {
		return false
	}
	_ = ln.Close()
	return true
}
