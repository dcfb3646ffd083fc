package main

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/config"
)

// invoker is who has called the program, before sudo.
type invoker struct {
	uid, gid int
	home     string
}

// whoCalled finds the invoker. Without sudo it is the process's own user.
func whoCalled(a *app) invoker {
	self := invoker{uid: os.Getuid(), gid: os.Getgid(), home: a.getenv("HOME")}
	if os.Geteuid() != 0 || a.getenv("SUDO_UID") == "" {
		return self
	}
	u, err := user.LookupId(a.getenv("SUDO_UID"))
	if err != nil {
		return self
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		return self
	}
	return invoker{uid: uid, gid: gid, home: u.HomeDir}
}

// tokenPrefix lets scanners for leaked secrets know ours.
const tokenPrefix = "sgt_"

// newToken returns 32 random bytes in base32, in lower case.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return tokenPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// loadToken returns the token in path, or makes one there, mode 0600 and
// owner's.
func loadToken(path string, owner invoker) (string, error) {
	const op = "token.load"
	b, err := os.ReadFile(path)
	if err == nil {
		token := strings.TrimSpace(string(b))
		if len(token) < 32 {
			return "", fault.New(fault.Host, op, "%s holds no token; remove it, and the next start makes one", path)
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			return "", fault.New(fault.Host, op, "%s can be read by others than its owner; chmod 600 it", path)
		}
		return token, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", &fault.Error{Kind: fault.Host, Op: op, Message: "cannot read " + path, Err: err}
	}
	token := newToken()
	if err := writeSecret(path, []byte(token+"\n"), owner.uid, owner.gid); err != nil {
		return "", &fault.Error{Kind: fault.Host, Op: op, Message: "cannot write " + path, Err: err}
	}
	return token, nil
}

func tokenCommand() command {
	return command{
		name: "token", short: "Print the access token that the client's commands use, or rotate the server's",
		long: `
--rotate, as root on the server's machine, puts a new token in the place of the
present one and prints the address with it. A server that runs takes it up
at once; connections stay. The present one is good for --keep longer.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			c := connectionFlags(set)
			flags := config.AddFlags(set)
			rotate := set.Bool("rotate", false, "Puts a new token in the place of the present one.")
			keep := set.Duration("keep", 10*time.Minute, "With --rotate: how long the present token is good for (a `duration`); 0 ends it at once.")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			if *rotate {
				cfg, err := config.Load(flags, a.env)
				if err != nil {
					return err
				}
				return rotateToken(ctx, a, cfg, max(0, *keep))
			}
			p, err := c.find(a)
			if err != nil {
				return err
			}
			if _, t, ok := strings.Cut(p.URL, "#token="); ok && p.Token == "" {
				p.Token = t
			}
			if p.Token == "" {
				return fault.New(fault.Unauthenticated, "token", "no token was found; start sandgate serve, or set SANDGATE_TOKEN")
			}
			fmt.Fprintln(a.out, p.Token)
			return nil
		},
	}
}
