package gvisor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"gvisor.dev/gvisor/pkg/log"
)

// gvisorLog passes the log messages of gVisor's packages in this process to slog. Their warnings
// are mostly about choices of Sandgate or come back as errors, so they become debug messages.
type gvisorLog struct{ to *slog.Logger }

// Emit implements log.Emitter.
func (l gvisorLog) Emit(_ int, level log.Level, _ time.Time, format string, args ...any) {
	ctx := context.Background()
	if !l.to.Enabled(ctx, slog.LevelDebug) {
		return
	}
	l.to.DebugContext(ctx, "gvisor", "level", level.String(), "message",
		strings.TrimSpace(fmt.Sprintf(format, args...)))
}
