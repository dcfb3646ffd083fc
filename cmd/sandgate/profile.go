package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/config"
)

// profile is ~/.config/sandgate/client.yaml: where the server is and the token
// for it.
type profile struct {
	URL   string `yaml:"url"`
	Token string `yaml:"token"`
}

// profilePath is relative to the home directory.
const profilePath = ".config/sandgate/client.yaml"

// connection are the flags of all commands that speak to a server.
type connection struct{ url, tokenFile string }

func connectionFlags(set *flag.FlagSet) *connection {
	c := new(connection)
	set.StringVar(&c.url, "url", "", "`address` of the server; else SANDGATE_URL, else the profile's, else http://127.0.0.1:8080.")
	set.StringVar(&c.tokenFile, "token-from", "", "`file` that holds the token; else SANDGATE_TOKEN, else the profile's.")
	return c
}

// find returns the address and the token to use.
func (c *connection) find(a *app) (profile, error) {
	const op = "profile.read"
	p, err := readProfile(filepath.Join(a.getenv("HOME"), profilePath))
	if err != nil {
		return p, err
	}
	if c.url != "" || a.getenv("SANDGATE_URL") != "" {
		p.URL = a.getenv("SANDGATE_URL")
		if c.url != "" {
			p.URL = c.url
		}
		// A token is for the server that it came with.
		if _, fragment, ok := strings.Cut(p.URL, "#"); ok && strings.Contains(fragment, "token=") {
			p.Token = ""
		}
	}
	switch {
	case c.tokenFile != "":
		b, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return p, &fault.Error{Kind: fault.Unauthenticated, Op: op, Message: "cannot read the token from " + c.tokenFile, Err: err}
		}
		p.Token = strings.TrimSpace(string(b))
	case a.getenv("SANDGATE_TOKEN") != "":
		p.Token = a.getenv("SANDGATE_TOKEN")
	}
	if p.URL == "" {
		p.URL = "http://" + config.Default().Listen
	}
	if p.Token == "" && !strings.Contains(p.URL, "#token=") {
		// On the server's own machine the token's owner needs no profile.
		if b, err := os.ReadFile(config.Default().TokenFile()); err == nil {
			p.Token = strings.TrimSpace(string(b))
		}
	}
	return p, nil
}

// client returns a client of the server that the flags, the environment or the
// profile name.
func (c *connection) client(a *app) (*client.Client, error) {
	p, err := c.find(a)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards lost
	lost := false
	return client.New(p.URL, p.Token, client.Options{
		Name: "sandgate-cli/" + version,
		OnState: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && lost:
				fmt.Fprint(a.err, "\r[sandgate: connected again]\r\n")
			case err != nil && !lost:
				fmt.Fprint(a.err, "\r[sandgate: the connection was lost; trying to come back, Ctrl-C gives up]\r\n")
			}
			lost = err != nil
		},
	})
}

func readProfile(path string) (profile, error) {
	var p profile
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, &fault.Error{Kind: fault.PermissionDenied, Op: "profile.read", Message: "cannot read " + path, Err: err}
	}
	if err := yaml.Unmarshal(b, &p); err != nil {
		return p, fault.Invalid("profile.read", path, "the profile is no YAML with url and token; sandgate serve writes it anew")
	}
	return p, nil
}

// writeProfile writes who's profile. Root writes into a home that somebody
// else owns, so nothing may lead out of it.
func writeProfile(who invoker, p profile) error {
	home, err := os.OpenRoot(who.home)
	if err != nil {
		return err
	}
	defer func() { _ = home.Close() }()
	for _, dir := range []string{".config", ".config/sandgate"} {
		err := home.Mkdir(dir, 0o700)
		if err == nil {
			err = home.Lchown(dir, who.uid, who.gid)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	text := fmt.Sprintf("# Written by sandgate serve: where the server is, and the token for it.\nurl: %q\ntoken: %q\n", p.URL, p.Token)
	part := profilePath + ".new"
	_ = home.Remove(part)
	f, err := home.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chown(who.uid, who.gid), f.Close())
	if err != nil {
		return err
	}
	return home.Rename(part, profilePath)
}
