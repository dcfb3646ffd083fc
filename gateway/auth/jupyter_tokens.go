package auth

import (
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A token for Jupyter's clients is a part of the path of a URL. Such clients write the URL in lower
// case, so the token has hexadecimal digits only. It is sealed: every gateway can open it, also
// after a restart. It opens Jupyter's interface and nothing else. It ends at its time, and with the
// credentials that created it.

const purposeJupyter = "jupyter token"

// jupyterToken is the sealed part of a token.
type jupyterToken struct {
	Tenant  string   `json:"tenant"`
	By      string   `json:"by"`
	Scopes  []string `json:"scopes"`
	Session string   `json:"session,omitempty"`
	Until   int64    `json:"until"`
}

// NewJupyterToken returns a token with which a client acts for a principal. It opens one session's
// server, or, without a session, all of the principal.
func (a *Authenticator) NewJupyterToken(by noderpc.Principal, session string, life time.Duration,
) (string, error) {
	if by.Session != "" {
		return "", fault.New(fault.PermissionDenied, "auth.jupyter_token",
			"these credentials are for one session").For(fault.CauseRestricted)
	}
	until := time.Now().Add(life)
	if !by.Until.IsZero() && by.Until.Before(until) {
		until = by.Until
	}
	text, err := seal(a.Keys, purposeJupyter, time.Until(until), jupyterToken{
		Tenant: by.Tenant, By: by.Subject, Scopes: by.Scopes, Session: session,
		Until: until.Unix(),
	})
	if err != nil {
		return "", err
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", fault.Wrap(fault.Internal, "auth.jupyter_token", err)
	}
	return hex.EncodeToString(raw), nil
}

// OpenJupyterToken returns the principal of a token, and the session that it is for; empty means
// all. Errors: Unauthenticated.
func (a *Authenticator) OpenJupyterToken(token string) (who noderpc.Principal, session string,
	err error,
) {
	raw, err := hex.DecodeString(token)
	if err != nil {
		return who, "", errJupyterToken()
	}
	t, ok, err := unseal[jupyterToken](a.Keys, purposeJupyter,
		base64.RawURLEncoding.EncodeToString(raw))
	if err != nil {
		return who, "", err
	}
	if !ok || t.Tenant == "" {
		return who, "", errJupyterToken()
	}
	if !a.creatorValid(t.Tenant, t.By) {
		return who, "", ErrRevoked()
	}
	return noderpc.Principal{
		Tenant: t.Tenant, Subject: t.By, Scopes: t.Scopes, Until: time.Unix(t.Until, 0),
	}, t.Session, nil
}

func errJupyterToken() error {
	return fault.New(fault.Unauthenticated, "auth.jupyter_token",
		"the token in the address is not valid, or has expired")
}
