package server

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/internal/certificate"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// gatewayInput are the settings that a gateway reads from its pipe.
type gatewayInput struct {
	Config *config.Config               `json:"config"`
	Tokens map[string]noderpc.Principal `json:"tokens"`
	Until  map[string]time.Time         `json:"until,omitempty"`
	// OIDCSecret is the client secret at the OpenID provider.
	OIDCSecret string `json:"oidc_secret,omitempty"`
	// LibreChatKeys is the content of librechat.jwt_keys.
	LibreChatKeys []byte `json:"librechat_keys,omitempty"`
	// OnlyboxesKey is the content of onlyboxes.jit_key_file.
	OnlyboxesKey []byte `json:"onlyboxes_key,omitempty"`
	// Certificates are those of tls.certificates.
	Certificates []certificate.Pair `json:"certificates,omitempty"`
	// Cluster is nil without a cluster.
	Cluster *clusterAccess `json:"cluster,omitempty"`
}

// principals returns the principal of the token.
func principals(token string) map[string]noderpc.Principal {
	var scopes []string
	for _, s := range protocol.Scopes() {
		scopes = append(scopes, string(s))
	}
	return map[string]noderpc.Principal{auth.HashToken(token): {
		Tenant: auth.OperatorTenant, Subject: "owner",
		Scopes: scopes,
	}}
}

// gatewaySettings encodes the settings of the gateway, with the tokens that it accepts.
func gatewaySettings(cfg *config.Config, token string) ([]byte, error) {
	in := gatewayInput{Config: cfg, Tokens: principals(token)}
	if err := in.addPrevious(cfg.TokenFile()); err != nil {
		return nil, err
	}
	if err := in.addSecret(cfg); err != nil {
		return nil, err
	}
	if err := in.addLibreChatKeys(cfg); err != nil {
		return nil, err
	}
	if err := in.addOnlyboxesKey(cfg); err != nil {
		return nil, err
	}
	var err error
	if in.Certificates, err = certificate.ReadAll(cfg.TLS.Certificates); err != nil {
		return nil, err
	}
	if in.Cluster, err = readClusterAccess(cfg, true); err != nil {
		return nil, err
	}
	data, err := json.Marshal(in)
	return data, fault.Wrap(fault.Internal, "serve", err)
}

// readGatewaySettings reads the settings of a gateway that runs alone.
func readGatewaySettings(cfg *config.Config) (gatewayInput, error) {
	b, err := os.ReadFile(cfg.TokenFile())
	if err != nil {
		return gatewayInput{}, &fault.Error{
			Kind: fault.Host, Op: "gateway.start",
			Message: "cannot read the token from " + cfg.TokenFile(), Err: err,
		}
	}
	in := gatewayInput{Config: cfg, Tokens: principals(strings.TrimSpace(string(b)))}
	if err := in.addSecret(cfg); err != nil {
		return in, err
	}
	if err := in.addLibreChatKeys(cfg); err != nil {
		return in, err
	}
	if err := in.addOnlyboxesKey(cfg); err != nil {
		return in, err
	}
	if in.Certificates, err = certificate.ReadAll(cfg.TLS.Certificates); err != nil {
		return in, err
	}
	if in.Cluster, err = readClusterAccess(cfg, false); err != nil {
		return in, err
	}
	return in, in.addPrevious(cfg.TokenFile())
}

// addSecret checks the settings of sign-ins and reads the client secret.
func (in *gatewayInput) addSecret(cfg *config.Config) error {
	const op = "oidc.secret"
	if err := cfg.OIDC.Complete(); err != nil {
		return err
	}
	path := cfg.OIDC.SecretFile
	if cfg.OIDC.Issuer == "" || path == "" {
		return nil
	}
	secret, err := readSecret(op, path, "the client's secret")
	in.OIDCSecret = secret
	return err
}

// readSecret reads a file with a secret, without blanks around it. Errors: Host if others can read it.
func readSecret(op, path, what string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", &fault.Error{
			Kind: fault.Host, Op: op, Message: "cannot read " + what + " from " + path, Err: err,
		}
	}
	info, err := os.Stat(path)
	if err == nil && !private(info) {
		return "", fault.New(fault.Host, op,
			"users other than its owner can read %s; chmod 600 the file", path)
	}
	return strings.TrimSpace(string(b)), nil
}

// addOnlyboxesKey reads the key of LobeHub's tokens.
func (in *gatewayInput) addOnlyboxesKey(cfg *config.Config) error {
	path := cfg.Onlyboxes.KeyFile
	if path == "" {
		return nil
	}
	key, err := readSecret("onlyboxes.key", path, "the key of LobeHub's tokens")
	in.OnlyboxesKey = []byte(key)
	return err
}

// addLibreChatKeys reads the public keys of LibreChat's tokens.
func (in *gatewayInput) addLibreChatKeys(cfg *config.Config) (err error) {
	path := cfg.LibreChat.Keys
	if path == "" {
		return nil
	}
	if in.LibreChatKeys, err = os.ReadFile(path); err != nil {
		return &fault.Error{
			Kind: fault.Host, Op: "librechat.keys",
			Message: "cannot read the keys of LibreChat from " + path, Err: err,
		}
	}
	return nil
}

// private reports whether only this process's user can read a file, or only root and this process's
// group: Kubernetes mounts a secret that way for a user other than root.
func private(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return true
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && mode&0o037 == 0 && s.Uid == 0 && os.Geteuid() != 0 && int(s.Gid) == os.Getegid()
}

// addPrevious adds the previous token while it is valid.
func (in *gatewayInput) addPrevious(tokenFile string) error {
	b, err := os.ReadFile(previousPath(tokenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var p previousToken
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return &fault.Error{Kind: fault.Host, Op: "token.load", Message: "cannot read " +
			previousPath(tokenFile) + "; remove it", Err: err}
	}
	if time.Now().After(p.Until) || in.Tokens[p.Hash].Tenant != "" {
		return nil
	}
	for _, who := range in.Tokens {
		in.Tokens[p.Hash] = who
		in.Until = map[string]time.Time{p.Hash: p.Until}
		break // there is only one token, with one owner
	}
	return nil
}
