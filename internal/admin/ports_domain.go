package admin

import (
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// portsDomain checks whether the programs in ports share a site with the gateway. A page of such a
// program can set cookies for all names of its registrable domain.
func portsDomain(cfg *config.Config) []gvisor.Finding {
	const name = "ports_domain"
	host := strings.TrimPrefix(strings.TrimPrefix(cfg.Ports, "https://"), "http://")
	host, _, _ = strings.Cut(host, ":")
	if host == "" || host == "localhost" {
		return nil
	}
	suffix, _ := publicsuffix.PublicSuffix(host)
	if suffix == host {
		return []gvisor.Finding{finding(name, gvisor.OK, "",
			"%s is in the Public Suffix List, so that each port is a site of its own", host)}
	}
	site := siteOf(host)
	for _, h := range cfg.Hosts {
		if siteOf(h) == site {
			return []gvisor.Finding{finding(name, gvisor.Warn,
				"give ports a registrable domain of their own",
				"%s and %s belong to the site %s: a page in a port can set and fill cookies of the gateway",
				host, h, site)}
		}
	}
	return []gvisor.Finding{finding(name, gvisor.OK, "",
		"ports have the site %s; pages in ports can set cookies for one another unless %s is in the "+
			"Public Suffix List", site, host)}
}

// siteOf returns the registrable domain of a host name, or the name itself if it has none.
func siteOf(host string) string {
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}
