package noderpc

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/hashicorp/yamux"
)

// muxConfig returns the configuration of yamux for both ends. The backlog equals the limit of
// links, so that yamux never blocks or resets an opening stream itself: this package enforces the
// limit and reports it with a named error.
func muxConfig(log *slog.Logger) *yamux.Config {
	return &yamux.Config{
		AcceptBacklog:          MaxLinks,
		EnableKeepAlive:        true,
		KeepAliveInterval:      keepAlive,
		ConnectionWriteTimeout: connTimeout,
		MaxStreamWindowSize:    Window,
		StreamOpenTimeout:      openTimeout,
		StreamCloseTimeout:     closeTimeout,
		LogOutput:              nil,
		Logger:                 muxLogger{log},
	}
}

// joiner sends yamux's header together with the body that follows. yamux writes them separately.
// Joined, they take one system call on this side and one wake-up on the other. Only yamux's send
// loop writes, one write at a time.
type joiner struct {
	net.Conn
	held    [muxHeader]byte
	holding bool
	joined  []byte
}

// maxJoined is the maximum size of a body that is copied, so that header and body fit into one TLS
// record.
const maxJoined = 16<<10 - muxHeader

// muxHeader is the length of yamux's header: version u8, type u8, flags u16, stream u32, length
// u32. Type 0 is data, with a body of length bytes.
const muxHeader = 12

func (j *joiner) Write(p []byte) (int, error) {
	if !j.holding {
		if len(p) == muxHeader && p[1] == 0 && binary.BigEndian.Uint32(p[8:]) > 0 {
			copy(j.held[:], p)
			j.holding = true
			return len(p), nil
		}
		return j.Conn.Write(p)
	}
	j.holding = false
	if _, ok := j.Conn.(*tls.Conn); ok && len(p) <= maxJoined {
		// Two writes would be two TLS records, each encrypted separately.
		j.joined = append(append(j.joined[:0], j.held[:]...), p...)
		n, err := j.Conn.Write(j.joined)
		return max(n-muxHeader, 0), err
	}
	buffers := net.Buffers{j.held[:], p}
	n, err := buffers.WriteTo(j.Conn)
	return max(int(n)-muxHeader, 0), err
}

// muxLogger logs yamux's lines with their level.
type muxLogger struct{ log *slog.Logger }

func (l muxLogger) Printf(format string, v ...any) { l.line(fmt.Sprintf(format, v...)) }
func (l muxLogger) Print(v ...any)                 { l.line(fmt.Sprint(v...)) }
func (l muxLogger) Println(v ...any)               { l.line(fmt.Sprint(v...)) }

func (l muxLogger) line(s string) {
	s = strings.TrimSpace(s)
	switch {
	case strings.HasPrefix(s, "[ERR]"):
		l.log.Info("node connection", "detail", strings.TrimSpace(s[5:]))
	default:
		// yamux warns about a frame for a stream that has just closed. That is normal here.
		l.log.Debug("node connection", "detail", s)
	}
}

func discard(log *slog.Logger) *slog.Logger {
	if log != nil {
		return log
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}
