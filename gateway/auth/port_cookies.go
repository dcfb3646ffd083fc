package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// A browser that has used a port's ticket gets a cookie for that port. For a token or an API key
// the cookie is an HMAC under the token's hash: the gateway keeps no state, a restart changes
// nothing, and the cookie ends with the token or with the rotation of the key. A signed-in user has
// no token, so the cookie is the sealed principal.

const (
	// PortCookieLife is how long a port's cookie is valid.
	PortCookieLife = 12 * time.Hour
	// userMark begins the cookie of a signed-in user.
	userMark    = "u~"
	purposePort = "port cookie "
)

// isUser reports whether the principal is a signed-in user who may write.
func isUser(who noderpc.Principal) bool {
	return strings.HasPrefix(who.Subject, userSubject) && Allows(who, protocol.ScopeWrite)
}

// CanOpenPorts reports whether a browser can get a port's cookie with the credentials of a
// principal. Run tokens and view links do not allow it.
func (a *Authenticator) CanOpenPorts(who noderpc.Principal) bool {
	_, ok := a.tokenOf(who)
	return ok || isUser(who)
}

// tokenOf returns a token or an API key of the principal.
func (a *Authenticator) tokenOf(who noderpc.Principal) (token, bool) {
	if id, ok := tenant.KeyOf(who.Subject); ok {
		return a.tokenOfKey(id)
	}
	for _, t := range *a.tokens.Load() {
		if t.until.IsZero() && t.who.Tenant == who.Tenant && t.who.Subject == who.Subject &&
			Allows(t.who, protocol.ScopeWrite) {
			return t, true
		}
	}
	return token{}, false
}

// tokenOfKey returns an API key as a token. A rotation changes its hash.
func (a *Authenticator) tokenOfKey(id string) (token, bool) {
	x, _ := a.Keys.Get()
	if x == nil {
		return token{}, false
	}
	k, ok := x.Key(id)
	who := principalOf(k)
	hash, err := hex.DecodeString(k.Hash)
	if !ok || err != nil || len(hash) != sha256.Size || !Allows(who, protocol.ScopeWrite) {
		return token{}, false
	}
	return token{hash: [sha256.Size]byte(hash), who: who, until: k.Expires}, true
}

// portCookie returns the cookie of a token for a port. It begins with the time
// at which it expires, in Unix seconds.
func portCookie(t token, port string, expires int64) string {
	at := strconv.FormatInt(expires, 36)
	if id, ok := tenant.KeyOf(t.who.Subject); ok {
		at += "-" + id // used to find the key again
	}
	mac := hmac.New(sha256.New, t.hash[:])
	mac.Write([]byte("port cookie\x00" + port + "\x00" + at))
	return at + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// NewPortCookie returns the value of a cookie that opens a port, valid for at
// most PortCookieLife. ok is false if there is none for this principal.
func (a *Authenticator) NewPortCookie(who noderpc.Principal, port string) (value string, ok bool) {
	if t, ok := a.tokenOf(who); ok {
		return portCookie(t, port, time.Now().Add(PortCookieLife).Unix()), true
	}
	if !isUser(who) {
		return "", false
	}
	text, err := seal(a.Keys, purposePort+port, min(PortCookieLife, time.Until(who.Until)), who)
	return userMark + text, err == nil
}

// OpenPortCookie returns the principal of a port's cookie.
func (a *Authenticator) OpenPortCookie(value, port string) (noderpc.Principal, bool) {
	if text, ok := strings.CutPrefix(value, userMark); ok && a.provider != nil {
		who, ok, err := unseal[noderpc.Principal](a.Keys, purposePort+port, text)
		return who, ok && err == nil
	}
	at, _, _ := strings.Cut(value, ".")
	at, id, ofKey := strings.Cut(at, "-")
	expires, err := strconv.ParseInt(at, 36, 64)
	if err != nil || time.Now().Unix() >= expires {
		return noderpc.Principal{}, false
	}
	tokens := *a.tokens.Load()
	if t, ok := a.tokenOfKey(id); ofKey {
		tokens = nil
		if ok {
			tokens = Tokens{t}
		}
	}
	for _, t := range tokens {
		if t.valid() && hmac.Equal([]byte(value), []byte(portCookie(t, port, expires))) {
			return t.who, true
		}
	}
	return noderpc.Principal{}, false
}
