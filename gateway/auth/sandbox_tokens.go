package auth

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The purposes of tokens for one sandbox.
const (
	// SandboxAccess is the purpose of tokens that run commands and read files.
	SandboxAccess = "access"
	// SandboxTraffic is the purpose of tokens that reach the ports of programs.
	SandboxTraffic = "traffic"
)

// SandboxToken returns the token of a session for a purpose. Every gateway with the same key table
// returns the same token, so that none is stored. It does not expire; the session does.
func (a *Authenticator) SandboxToken(purpose, session string) (string, error) {
	const op = "auth.sandbox_token"
	secret, err := a.Keys.secret()
	if err != nil {
		return "", err
	}
	key, err := hkdf.Expand(sha256.New, secret, "sandgate sandbox token\x00"+purpose, keySize)
	if err != nil {
		return "", fault.Wrap(fault.Internal, op, err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(session))
	return hex.EncodeToString(mac.Sum(nil)), nil
}
