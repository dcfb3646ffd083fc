package server

import (
	"net"
	"strings"
	"time"
)

// notify tells systemd of a state, as sd_notify does. Without a socket, or when
// nobody listens, there is nobody to tell.
func notify(socket, state string) {
	if socket == "" {
		return
	}
	if name, ok := strings.CutPrefix(socket, "@"); ok {
		socket = "\x00" + name
	}
	conn, err := net.DialTimeout("unixgram", socket, time.Second)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte(state))
}
