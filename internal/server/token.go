package server

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/protocol/fault"
)

// tokenPrefix lets scanners for leaked secrets recognise tokens.
const tokenPrefix = "sgt_"

// newToken returns 32 random bytes in base32, in lower case.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return tokenPrefix + strings.ToLower(
		base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// LoadToken returns the token in path. If there is none, it creates a token in a file of mode 0600
// that owner owns.
func LoadToken(path string, owner Caller) (string, error) {
	const op = "token.load"
	b, err := os.ReadFile(path)
	if err == nil {
		token := strings.TrimSpace(string(b))
		if len(token) < 32 {
			return "", fault.New(fault.Host, op,
				"%s has no token; remove it, and the next start creates one", path)
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			return "", fault.New(fault.Host, op,
				"users other than its owner can read %s; chmod 600 the file", path)
		}
		return token, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", &fault.Error{Kind: fault.Host, Op: op, Message: "cannot read " + path, Err: err}
	}
	token := newToken()
	if err := writeSecret(path, []byte(token+"\n"), owner.UID, owner.GID); err != nil {
		return "", &fault.Error{Kind: fault.Host, Op: op, Message: "cannot write " + path, Err: err}
	}
	return token, nil
}

// previousToken is a file beside the token's: the hash of the previous token and the end of its
// validity.
type previousToken struct {
	Hash  string    `json:"sha256"`
	Until time.Time `json:"until"`
}

func previousPath(tokenFile string) string { return tokenFile + ".previous" }

// writeSecret writes a file of mode 0600, completely or not at all.
func writeSecret(path string, data []byte, uid, gid int) error {
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	_ = os.Remove(part)
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chown(uid, gid), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}

// fileOwner returns the user and the group that own a file.
func fileOwner(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return os.Getuid(), os.Getgid()
	}
	return int(st.Uid), int(st.Gid)
}

// ReplaceToken replaces the current token with a new one and returns both. The old token remains
// valid for keep.
func ReplaceToken(path string, owner Caller,
	keep time.Duration,
) (previous, next string, err error) {
	const op = "token.rotate"
	info, err := os.Stat(path)
	if err != nil {
		return "", "", &fault.Error{Kind: fault.Host, Op: op, Message: "cannot read the token in " +
			path + "; rotate it as root, on the server's machine", Err: err}
	}
	previous, err = LoadToken(path, owner)
	if err != nil {
		return "", "", err
	}
	uid, gid := fileOwner(info)
	note, err := json.Marshal(previousToken{
		Hash:  auth.HashToken(previous),
		Until: time.Now().Add(keep).UTC(),
	})
	if err != nil {
		return "", "", fault.Wrap(fault.Internal, op, err)
	}
	next = newToken()
	// The note about the old token is written first, so that one of the two is valid at any moment.
	// Both files have the owner of the token's, who may be the user of a gateway that runs alone.
	if err := writeSecret(previousPath(path), note, uid, gid); err != nil {
		return "", "", fault.Wrap(fault.Host, op, err)
	}
	if err := writeSecret(path, []byte(next+"\n"), uid, gid); err != nil {
		return "", "", fault.Wrap(fault.Host, op, err)
	}
	return previous, next, nil
}
