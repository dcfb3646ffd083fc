package server

import (
	"os"
	"os/user"
	"strconv"

	"github.com/sandgate/sandgate/internal/console"
)

// Caller is the user who called the program, before sudo.
type Caller struct {
	UID, GID int
	Home     string
}

// FindCaller returns the caller. Without sudo it is the user of the process.
func FindCaller(a *console.Invocation) Caller {
	self := Caller{UID: os.Getuid(), GID: os.Getgid(), Home: a.Getenv("HOME")}
	if os.Geteuid() != 0 || a.Getenv("SUDO_UID") == "" {
		return self
	}
	u, err := user.LookupId(a.Getenv("SUDO_UID"))
	if err != nil {
		return self
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		return self
	}
	return Caller{UID: uid, GID: gid, Home: u.HomeDir}
}
