package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/sandbox"
)

// skipped is the judgement of what could not be looked at.
const skipped = sandbox.Status("skip")

func doctorCommand() command {
	return command{
		name: "doctor", short: "Look at this machine and the server, and say how to mend what is wrong",
		long: `
Exits with 218 when something fails. Without root it looks at what it can and
says what it could not.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			flags := config.AddFlags(set)
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			cfg, err := config.Load(flags, a.env)
			if err != nil {
				return err
			}
			d := &doctor{a: a, cfg: cfg, conn: conn}
			return d.run(ctx)
		},
	}
}

// doctor looks at one thing after another.
type doctor struct {
	a      *app
	cfg    *config.Config
	conn   *connection
	failed int
}

func (d *doctor) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	d.report(d.runsc(ctx), d.image(), d.token())
	if d.cfg.Cluster.Blobs != "" {
		d.report(d.blobs(ctx))
	}
	d.machine(ctx)
	d.server(ctx)
	if d.failed > 0 {
		fmt.Fprintf(d.a.out, "\n%d of these keep Sandgate from working.\n", d.failed)
		return exitStatus(fault.Host.Row().Exit)
	}
	fmt.Fprintln(d.a.out, "\nNothing is in the way.")
	return nil
}

// report prints findings, the remedy below each that is not well.
func (d *doctor) report(findings ...sandbox.Finding) {
	for _, f := range findings {
		mark := string(f.Status)
		if d.a.colour(d.a.out) {
			colours := map[sandbox.Status]string{sandbox.OK: "32", sandbox.Warn: "33", sandbox.Fail: "31", skipped: "36"}
			mark = "\x1b[" + colours[f.Status] + "m" + mark + "\x1b[0m" + strings.Repeat(" ", 4-len(f.Status))
		}
		fmt.Fprintf(d.a.out, "%-4s  %-18s  %s\n", mark, f.Name, f.What)
		if f.Mend != "" && f.Status != sandbox.OK {
			for _, l := range lines("mend: "+f.Mend, 90) {
				fmt.Fprintf(d.a.out, "      %-18s  %s\n", "", l)
			}
		}
		if f.Status == sandbox.Fail {
			d.failed++
		}
	}
}

func finding(name string, status sandbox.Status, mend, format string, args ...any) sandbox.Finding {
	return sandbox.Finding{Name: name, Status: status, What: fmt.Sprintf(format, args...), Mend: mend}
}

func (d *doctor) runsc(ctx context.Context) sandbox.Finding {
	path := d.cfg.RunscPath()
	const mend = "make build, or name it with --runsc"
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return finding("runsc", sandbox.Fail, mend, "there is none at %s", path)
	case info.Mode()&0o111 == 0:
		return finding("runsc", sandbox.Fail, "chmod 755 "+path, "%s cannot be executed", path)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return finding("runsc", sandbox.Fail, mend, "%s does not start: %v", path, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return finding("runsc", sandbox.OK, "", "%s (%s)", path, first)
}

func (d *doctor) image() sandbox.Finding {
	path := d.cfg.ImagePath()
	all, err := readManifests(path)
	if err == nil {
		_, err = imageEnv(path)
	}
	if err != nil {
		return finding("image", sandbox.Fail, "make build, or name it with --image", "%s", message(err))
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	return finding("image", sandbox.OK, "", "%s with %s", path, strings.Join(names, ", "))
}

func (d *doctor) token() sandbox.Finding {
	path := d.cfg.TokenFile()
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return finding("token", sandbox.Warn, "sandgate serve makes it on its first start", "there is none at %s yet", path)
	case os.IsPermission(err):
		return finding("token", skipped, "", "%s cannot be seen by this user", filepath.Dir(path))
	case err != nil:
		return finding("token", sandbox.Fail, "look at "+path, "%v", err)
	case info.Mode().Perm()&0o077 != 0:
		return finding("token", sandbox.Fail, "chmod 600 "+path, "%s can be read by others than its owner", path)
	}
	return finding("token", sandbox.OK, "", "%s", path)
}

// blobs puts an object into the blob store, reads it and removes it.
func (d *doctor) blobs(ctx context.Context) sandbox.Finding {
	const name = "blob store"
	where := d.cfg.Cluster.Blobs
	if d.cfg.Cluster.S3Endpoint != "" {
		where += " at " + d.cfg.Cluster.S3Endpoint
	}
	if os.Geteuid() != 0 {
		return finding(name, skipped, "sudo sandgate doctor", "%s is the node's alone, which is root", where)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	store, err := openBlobs(d.cfg)
	if err == nil {
		err = blob.Try(ctx, store)
	}
	if err != nil {
		return finding(name, sandbox.Fail, "look at cluster.blobs and, of a bucket, at cluster.s3_endpoint, s3_region and s3_credentials_file", "%s: %s", where, message(err))
	}
	return finding(name, sandbox.OK, "", "%s takes, gives back and removes an object", where)
}

// machine looks at what sandboxes need, and boots one.
func (d *doctor) machine(ctx context.Context) {
	if os.Geteuid() != 0 {
		d.report(finding("machine", skipped, "sudo sandgate doctor", "the kernel, the cgroups and a sandbox's boot cannot be looked at without root"))
		return
	}
	var probe *sandbox.Spec
	if s, err := spec(d.cfg); err == nil {
		s.Args = []string{"/bin/true"}
		probe = &s
	}
	runsc := d.cfg.RunscPath()
	if os.Geteuid() == 0 {
		if copied, err := reachable(runsc, filepath.Join(d.cfg.DataDir, "bin")); err == nil {
			runsc = copied
		}
	}
	d.report(sandbox.CheckHost(ctx, sandbox.Config{Runsc: runsc, StateDir: d.cfg.StateDir(), Platform: d.cfg.Platform}, probe)...)
	if probe == nil {
		d.report(finding("boot", skipped, "mend the image first", "no sandbox was booted, for want of an image"))
	}
	if _, name, err := gatewayUser(d.cfg); err != nil {
		d.report(finding("gateway user", sandbox.Fail, "set gateway_user to a system user that exists", "%s", message(err)))
	} else if name == "nobody" && d.cfg.User == "" {
		d.report(finding("gateway user", sandbox.Warn, "useradd --system --no-create-home --shell /usr/sbin/nologin sandgate",
			"there is no user sandgate; the gateway runs as nobody, which other services may be too"))
	} else {
		d.report(finding("gateway user", sandbox.OK, "", "%s", name))
	}
}

// server looks at the one that runs, or whether one could.
func (d *doctor) server(ctx context.Context) {
	c, err := d.conn.client(d.a)
	if err != nil {
		d.report(finding("profile", sandbox.Fail, "mend or remove ~/"+profilePath+"; sandgate serve writes it", "%s", message(err)))
		return
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := c.Health(short); err != nil {
		if !fault.Is(err, fault.Unavailable) || !d.portFree() {
			d.report(finding("server", sandbox.Fail, "look at its log; should something else listen there, choose another address with --listen", "%s answers: %s", c.URL(), message(err)))
			return
		}
		d.report(finding("port", sandbox.OK, "", "%s is free", d.cfg.Listen),
			finding("server", sandbox.Warn, "sudo sandgate serve", "none runs at %s", c.URL()))
		return
	}
	d.report(finding("server", sandbox.OK, "", "runs at %s", c.URL()))
	if _, err := c.Describe(short); err != nil {
		d.report(finding("sign-in", sandbox.Fail, "start the server anew, which writes ~/"+profilePath+", or set SANDGATE_TOKEN", "%s", message(err)))
		return
	}
	d.report(finding("sign-in", sandbox.OK, "", "the token is accepted"), d.oneCell(ctx, c))
}

// oneCell runs code through all of it.
func (d *doctor) oneCell(ctx context.Context, c *client.Client) sandbox.Finding {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	took, err := oneCell(ctx, c)
	switch {
	case fault.Is(err, fault.Exhausted):
		return finding("one cell", sandbox.Warn, "end sessions (sandgate sessions, sandgate rm) or raise sessions.max", "all capacity is in use")
	case err != nil:
		return finding("one cell", sandbox.Fail, "look at the server's log", "%s", message(err))
	}
	return finding("one cell", sandbox.OK, "", "print(6 * 7) in a new sandbox took %s", took)
}

func (d *doctor) portFree() bool {
	ln, err := net.Listen("tcp", d.cfg.Listen)
	if err != nil {
		return false
	}
	_ = ln.Close()
	return true
}
