package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/profile"
	"github.com/sandgate/sandgate/protocol/fault"
)

func connectionFlags(cmd *cobra.Command) *connection {
	c := new(connection)
	cmd.Flags().StringVar(&c.url, "url", "",
		"`address` of the server; default SANDGATE_URL, then the profile, then http://127.0.0.1:8080")
	cmd.Flags().StringVar(&c.tokenFile, "token-from", "",
		"`file` with the token; default SANDGATE_TOKEN, then the profile")
	return c
}

// connection holds the flags of all commands that call a server.
type connection struct{ url, tokenFile string }

// find returns the address and the token to use.
func (c *connection) find(a *app) (profile.Profile, error) {
	const op = "profile.read"
	p, err := profile.Read(filepath.Join(a.Getenv("HOME"), profile.Path))
	if err != nil {
		return p, err
	}
	if c.url != "" || a.Getenv("SANDGATE_URL") != "" {
		p.URL = a.Getenv("SANDGATE_URL")
		if c.url != "" {
			p.URL = c.url
		}
		// A token belongs to the server that is in the same URL.
		if _, fragment, ok := strings.Cut(p.URL, "#"); ok && strings.Contains(fragment, "token=") {
			p.Token = ""
		}
	}
	switch {
	case c.tokenFile != "":
		b, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return p, &fault.Error{
				Kind: fault.Unauthenticated, Op: op,
				Message: "cannot read the token from " + c.tokenFile, Err: err,
			}
		}
		p.Token = strings.TrimSpace(string(b))
	case a.Getenv("SANDGATE_TOKEN") != "":
		p.Token = a.Getenv("SANDGATE_TOKEN")
	}
	if p.URL == "" {
		p.URL = "http://" + config.Default().Listen
	}
	if p.Token == "" && !strings.Contains(p.URL, "#token=") {
		// On the server's own machine, a user who may read the token needs no profile.
		if b, err := os.ReadFile(config.Default().TokenFile()); err == nil {
			p.Token = strings.TrimSpace(string(b))
		}
	}
	return p, nil
}

func (a *app) profileOf(cmd *cobra.Command) func() (profile.Profile, error) {
	conn := connectionFlags(cmd)
	return func() (profile.Profile, error) { return conn.find(a) }
}

// client returns a client of the server that the flags, the environment or the
// profile name.
func (c *connection) client(a *app) (*wire.Client, error) {
	p, err := c.find(a)
	if err != nil {
		return nil, err
	}
	a.server = p.URL
	var mu sync.Mutex // guards lost
	lost := false
	return wire.New(p.URL, p.Token, wire.Options{
		Name: "sandgate-cli/" + a.Version,
		OnState: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && lost:
				fmt.Fprint(a.Err, "\r[sandgate: connected again]\r\n")
			case err != nil && !lost:
				fmt.Fprint(a.Err,
					"\r[sandgate: the connection was lost; trying to come back, Ctrl-C gives up]\r\n")
			}
			lost = err != nil
		},
	})
}
