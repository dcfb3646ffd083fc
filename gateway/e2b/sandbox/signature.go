package sandbox

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// signatureVersion begins every signature.
const signatureVersion = "v1_"

// CheckSignature checks the signature in the query of a request for a file: GET and HEAD read it,
// other methods write it. Token is the sandbox's access token, which is the key. Errors:
// Unauthenticated.
func CheckSignature(r *http.Request, token string, now time.Time) error {
	const op = "sandbox.signature"
	query := r.URL.Query()
	given := query["signature"]
	if len(given) != 1 || token == "" {
		return fault.New(fault.Unauthenticated, op,
			"the header X-Access-Token with the sandbox's access token is needed, or a signature")
	}
	for _, name := range []string{"path", "username", "signature_expiration"} {
		if len(query[name]) > 1 {
			return fault.New(fault.Unauthenticated, op, "the query has more than one %s", name)
		}
	}
	// A client may have left the plus signs of the text as they are, which stand for spaces.
	text := strings.ReplaceAll(given[0], " ", "+")
	action := "write"
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = "read"
	}
	ends := query.Get("signature_expiration")
	want := Signature(query.Get("path"), action, query.Get("username"), token, ends)
	if subtle.ConstantTimeCompare([]byte(text), []byte(want)) != 1 {
		return fault.New(fault.Unauthenticated, op, "the signature is not valid")
	}
	if ends == "" {
		return nil
	}
	at, err := strconv.ParseInt(ends, 10, 64)
	if err != nil {
		return fault.New(fault.Unauthenticated, op, "the time signature_expiration is not valid")
	}
	if now.Unix() > at {
		return fault.New(fault.Unauthenticated, op, "the signature has expired")
	}
	return nil
}

// Signature returns the signature of a request for a file. Action is read or write. Ends is the time
// of expiry in seconds since 1970; empty means never.
func Signature(path, action, user, token, ends string) string {
	text := path + ":" + action + ":" + user + ":" + token
	if ends != "" {
		text += ":" + ends
	}
	sum := sha256.Sum256([]byte(text))
	return signatureVersion + base64.RawStdEncoding.EncodeToString(sum[:])
}
