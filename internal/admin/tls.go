package admin

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/certificate"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// expiresSoon is how long before its end a certificate should have been renewed.
const expiresSoon = 14 * 24 * time.Hour

// certificates checks the files of tls.certificates: whether they can be read, when they end, and
// whether there is one for each name under which clients reach the server.
func certificates(cfg *config.Config, now time.Time) []gvisor.Finding {
	const name = "tls"
	var found []gvisor.Finding
	var all []tls.Certificate
	for _, item := range cfg.TLS.Certificates {
		pair, err := certificate.Read(item)
		if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
			return []gvisor.Finding{finding(name, Skipped, "sudo sandgate doctor",
				"%s cannot be read by this user", item)}
		}
		if err != nil {
			found = append(found, finding(name, gvisor.Fail,
				"name the file of a certificate and that of its key in tls.certificates", "%s",
				console.ErrorText(err)))
			continue
		}
		c, _ := pair.Certificate() // Read has parsed it
		all = append(all, c)
		found = append(found, lifeOf(name, item, "renew it", c, now))
		if f, bad := readers(item); bad {
			found = append(found, f)
		}
	}
	if len(all) < len(cfg.TLS.Certificates) {
		return found
	}
	for _, host := range namesOf(cfg) {
		if _, ok := certificate.Covers(all, host.check); !ok {
			found = append(found, finding(name, gvisor.Fail,
				"add a certificate for "+host.name+" to tls.certificates",
				"no certificate is for %s, which %s names", host.name, host.setting))
			continue
		}
		found = append(found, finding(name, gvisor.OK, "", "there is a certificate for %s",
			host.name))
	}
	return found
}

// lifeOf checks the time of a certificate.
func lifeOf(name, item, renew string, c tls.Certificate, now time.Time) gvisor.Finding {
	const day = "2006-01-02"
	end := c.Leaf.NotAfter
	what := "the certificate in " + item
	switch {
	case now.After(end):
		return finding(name, gvisor.Fail, renew, "%s ended on %s", what, end.Format(day))
	case now.Before(c.Leaf.NotBefore):
		return finding(name, gvisor.Fail, "check this machine's clock", "%s begins on %s", what,
			c.Leaf.NotBefore.Format(day))
	case end.Sub(now) < expiresSoon:
		return finding(name, gvisor.Warn, renew, "%s ends on %s", what, end.Format(day))
	}
	return finding(name, gvisor.OK, "", "%s is good until %s", what, end.Format(day))
}

// clusterCertificates checks when the certificates of this machine in its cluster expire.
func clusterCertificates(cfg *config.Config, now time.Time) (found []gvisor.Finding) {
	const name = "cluster"
	if cfg.Cluster.Redis == "" {
		return nil
	}
	for _, role := range []string{noderpc.RoleNode, noderpc.RoleGateway} {
		path := filepath.Join(cfg.ClusterDir(), role)
		if _, err := os.Stat(path + ".crt"); errors.Is(err, fs.ErrNotExist) {
			continue // this machine has the other role
		}
		pair, err := certificate.Read(path + ".crt:" + path + ".key")
		if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
			return []gvisor.Finding{finding(name, Skipped, "sudo sandgate doctor",
				"%s cannot be read by this user", path+".key")}
		}
		if err != nil {
			found = append(found, finding(name, gvisor.Fail, "run sandgate cluster join again", "%s",
				console.ErrorText(err)))
			continue
		}
		c, _ := pair.Certificate() // Read has parsed it
		found = append(found, lifeOf(name, path+".crt",
			"run sandgate cluster join again, and copy the folder to this machine", c, now))
	}
	return found
}

// readers reports whether every user can read the key of an item.
func readers(item string) (f gvisor.Finding, bad bool) {
	_, key := certificate.Files(item)
	info, err := os.Stat(key)
	if err != nil || info.Mode().Perm()&0o007 == 0 {
		return f, false
	}
	return finding("tls", gvisor.Fail, "chmod 600 "+key, "every user can read the key in %s", key), true
}

// hostName is a name that needs a certificate.
type hostName struct{ name, check, setting string }

// namesOf returns the names under which clients reach the server.
func namesOf(cfg *config.Config) []hostName {
	var all []hostName
	for _, h := range cfg.Hosts {
		all = append(all, hostName{h, h, "allowed_hosts"})
	}
	for _, d := range []struct{ domain, setting string }{
		{cfg.E2B, "e2b_domain"}, {strings.TrimPrefix(cfg.Ports, "https://"), "ports_domain"},
	} {
		if d.domain == "" || d.setting == "ports_domain" && d.domain == cfg.Ports {
			continue // names of ports need TLS only if the setting begins with https://
		}
		host, _, _ := strings.Cut(d.domain, ":")
		all = append(all, hostName{"*." + host, "check." + host, d.setting})
	}
	return all
}
