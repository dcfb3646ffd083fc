// Package e2bname has the names that E2B's interface has for parts of Sandgate: the ids of sandboxes,
// their metadata and options in the labels of a session, their events, and the form of keys.
// Gateways and nodes use it.
//
// A sandbox is a session of Sandgate. See docs/reference/e2b.md.
package e2bname

import "strings"

const (
	sessionPrefix = "s_"
	idPrefix      = "i"
	// maxID is the largest length of an id, in bytes.
	maxID = 64
)

// ID returns the id that clients of E2B use for a session: "i" and the session's id without "s_".
func ID(session string) string { return idPrefix + strings.TrimPrefix(session, sessionPrefix) }

// Session returns the session of a sandbox's id. ok is false for an id that cannot exist.
func Session(id string) (session string, ok bool) {
	rest, ok := strings.CutPrefix(id, idPrefix)
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	if !ok || rest == "" || len(id) > maxID || strings.Trim(rest, letters) != "" {
		return "", false
	}
	return sessionPrefix + rest, true
}
