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

// muxConfig is yamux's for both ends. The backlog equals the limit of links,
// so that yamux never blocks or resets an opening stream of its own accord:
// the limit is ours and its refusal has a name.
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

// joiner sends yamux's header together with the body that follows it. yamux
// writes the two apart; joined they are one system call here and one wake-up
// there. Only yamux's send loop writes, one write at a time.
type joiner struct {
	net.Conn
	held    [muxHeader]byte
	holding bool
	joined  []byte
}

// maxJoined is what is copied to be one TLS record, of which none is larger.
const maxJoined = 16<<10 - muxHeader

// muxHeader is the length of yamux's header: version u8, type u8, flags u16,
// stream u32, length u32. Type 0 is data, whose body has length bytes.
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
		// Two writes would be two records, each with a seal of its own.
		j.joined = append(append(j.joined[:0], j.held[:]...), p...)
		n, err := j.Conn.Write(j.joined)
		return max(n-muxHeader, 0), err
	}
	buffers := net.Buffers{j.held[:], p}
	n, err := buffers.WriteTo(j.Conn)
	return max(int(n)-muxHeader, 0), err
}

// muxLogger passes yamux's lines on with their level.
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
		// A frame for a stream that has just closed is a warning to yamux
		// and every day's business here.
		l.log.Debug("node connection", "detail", s)
	}
}

func discard(log *slog.Logger) *slog.Logger {
	if log != nil {
		return log
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}
