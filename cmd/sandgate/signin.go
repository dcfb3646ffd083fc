package main

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/tenant"
)

// addSecret checks the settings of sign-ins, and reads what the provider of sign-ins knows the server by.
func (in *gatewayInput) addSecret(cfg *config.Config) error {
	const op = "oidc.secret"
	if err := cfg.OIDC.Complete(); err != nil {
		return err
	}
	path := cfg.OIDC.SecretFile
	if cfg.OIDC.Issuer == "" || path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return &fault.Error{Kind: fault.Host, Op: op, Message: "cannot read the client's secret from " + path, Err: err}
	}
	info, err := os.Stat(path)
	if err == nil && !private(info) {
		return fault.New(fault.Host, op, "%s can be read by others than its owner; chmod 600 it", path)
	}
	in.OIDCSecret = strings.TrimSpace(string(b))
	return nil
}

// private reports whether a file is this process' alone, or root's, who lets its
// group read it: Kubernetes hands a secret to whoever is not root in that way.
func private(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return true
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && mode&0o037 == 0 && s.Uid == 0 && os.Geteuid() != 0 && int(s.Gid) == os.Getegid()
}

// signIn is how users of browsers sign in; nil without a provider.
func signIn(cfg *config.Config, secret string) *gateway.SignIn {
	o := cfg.OIDC
	if o.Issuer == "" {
		return nil
	}
	return &gateway.SignIn{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secret, PublicURL: o.PublicURL, Scopes: o.Scopes,
		TenantClaim: o.TenantClaim, Tenant: o.Tenant, RoleClaim: o.RoleClaim, Role: tenant.Role(o.Role), Life: time.Duration(o.Session),
	}
}
