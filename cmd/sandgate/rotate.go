package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway"
	"github.com/sandgate/sandgate/internal/config"
)

// previousToken is the token before, beside the present one's file: its hash,
// and until when it is good.
type previousToken struct {
	Hash  string    `json:"sha256"`
	Until time.Time `json:"until"`
}

func previousPath(tokenFile string) string { return tokenFile + ".previous" }

// addPrevious lets the token before in while its time lasts.
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
		return &fault.Error{Kind: fault.Host, Op: "token.load", Message: "cannot read " + previousPath(tokenFile) + "; remove it", Err: err}
	}
	if time.Now().After(p.Until) || in.Tokens[p.Hash].Tenant != "" {
		return nil
	}
	for _, who := range in.Tokens {
		in.Tokens[p.Hash] = who
		in.Until = map[string]time.Time{p.Hash: p.Until}
		break // there is one token, and both are the same owner's
	}
	return nil
}

// rotateToken puts a new token in the place of the present one, which stays
// good for a while. A server that runs takes it up at once.
func rotateToken(ctx context.Context, a *app, cfg *config.Config, keep time.Duration) error {
	const op = "token.rotate"
	path := cfg.TokenFile()
	info, err := os.Stat(path)
	if err != nil {
		return &fault.Error{Kind: fault.Host, Op: op, Message: "cannot see the token in " + path + "; rotate it as root, on the server's machine", Err: err}
	}
	who := whoCalled(a)
	old, err := loadToken(path, who)
	if err != nil {
		return err
	}
	uid, gid := owner(info)
	before, err := json.Marshal(previousToken{Hash: gateway.HashToken(old), Until: time.Now().Add(keep).UTC()})
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	token := newToken()
	// The old one's note first, so that one of them is good at any moment.
	if err := writeSecret(previousPath(path), before, 0, 0); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	if err := writeSecret(path, []byte(token+"\n"), uid, gid); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	address := "http://" + cfg.Listen
	if p, err := readProfile(filepath.Join(who.home, profilePath)); err == nil && p.Token == old {
		address = p.URL
		if err := writeProfile(who, profile{URL: p.URL, Token: token}); err != nil {
			fmt.Fprintf(a.err, "warning: the profile for the command line could not be written: %v\n", err)
		}
	}
	_, err = askReload(ctx, cfg, reloadRequest{})
	switch {
	case fault.Is(err, fault.Unavailable):
		fmt.Fprintln(a.err, "No server runs; the next start takes the new token.")
	case err != nil:
		return err
	}
	fmt.Fprintf(a.out, "%s/#token=%s\n", address, token)
	if keep > 0 {
		fmt.Fprintf(a.err, "The token before is good for another %s.\n", keep)
	}
	return nil
}

// writeSecret writes a file of mode 0600, whole or not at all.
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

// owner is whose a file is.
func owner(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return os.Getuid(), os.Getgid()
	}
	return int(st.Uid), int(st.Gid)
}
