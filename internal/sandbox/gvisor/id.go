package gvisor

import (
	"crypto/rand"
	"encoding/base32"
	"regexp"
)

// ID names a sandbox on its node. All ids have 16 characters of [a-z2-7] (80 random bits). gVisor
// finds containers by prefix, so ids of different length would be ambiguous. Short ids keep the
// path of the control socket below the 108 bytes of a Unix address.
type ID string

var (
	idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(
		base32.NoPadding)
	idPattern = regexp.MustCompile(`^[a-z2-7]{16}$`)
)

func newID() ID {
	var b [10]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return ID(idEncoding.EncodeToString(b[:]))
}

func (id ID) valid() bool { return idPattern.MatchString(string(id)) }
