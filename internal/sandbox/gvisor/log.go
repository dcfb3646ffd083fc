package gvisor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"gvisor.dev/gvisor/pkg/log"
)

// gvisorLog hands what gVisor's packages log in this process to slog. Their
// warnings are mostly about things that Sandgate chose or that come back as an
// error, and so arrive as debug messages.
type gvisorLog struct{ to *slog.Logger }

// Emit implements log.Emitter.
func (l gvisorLog) Emit(_ int, level log.Level, _ time.Time, format string, args ...any) {
	ctx := context.Background()
	if !l.to.Enabled(ctx, slog.LevelDebug) {
		return
	}
	l.to.DebugContext(ctx, "gvisor", "level", level.String(), "message", strings.TrimSpace(fmt.Sprintf(format, args...)))
}
