package envd

import (
	"context"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxEnvs is the largest environment that is listed, in bytes.
const maxEnvs = 1 << 20

// use is the body of GET /metrics. Caches and the disk are not measured; they are 0.
type use struct {
	Time        int64   `json:"ts"`
	CPUs        int     `json:"cpu_count"`
	CPUPercent  float64 `json:"cpu_used_pct"`
	MemTotal    int64   `json:"mem_total"`
	MemUsed     int64   `json:"mem_used"`
	MemCache    int64   `json:"mem_cache"`
	MemTotalMiB int64   `json:"mem_total_mib"`
	MemUsedMiB  int64   `json:"mem_used_mib"`
	DiskUsed    int64   `json:"disk_used"`
	DiskTotal   int64   `json:"disk_total"`
}

// metrics answers with the present use of the sandbox.
func (cfg Config) metrics(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), cfg.Call)
	defer cancel()
	t := sandbox.TargetOf(ctx)
	link, err := cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }()
	defer context.AfterFunc(ctx, func() { _ = link.Close() })()
	var v protocol.Session
	err = nodecall.Call(link, 1, protocol.OpSessionGet, 0, protocol.SessionRef{Session: t.Session},
		&v, nil)
	if err != nil {
		return err
	}
	var series protocol.Series
	err = nodecall.Call(link, 2, protocol.OpSessionSeries, 0,
		protocol.SeriesQuery{Session: t.Session}, &series, nil)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, useOf(v, series, time.Now()))
}

// useOf translates the use of a session. The processor time is that of the last full minute, or in
// the first minute the average since the session began.
func useOf(v protocol.Session, series protocol.Series, now time.Time) use {
	const mib = 1 << 20
	u := use{Time: now.Unix(), CPUs: 1}
	cpus := float64(u.CPUs)
	if l := v.Limits; l != nil {
		u.MemTotal, u.DiskTotal = l.MemoryBytes, l.DiskBytes
		if l.CPUs > 0 {
			cpus = l.CPUs
			u.CPUs = int(math.Ceil(cpus))
		}
	}
	var used float64
	if n := len(series.Points); n > 0 && now.Sub(series.Points[n-1].Time) < 3*time.Minute {
		used = series.Points[n-1].CPUSeconds / 60
	} else if v.Usage != nil {
		used = float64(v.Usage.CPUMS) / float64(max(1, now.UnixMilli()-v.CreatedMS))
	}
	if v.Usage != nil {
		u.MemUsed = v.Usage.MemoryBytes
	}
	u.CPUPercent = min(100, 100*used/cpus)
	u.MemTotalMiB, u.MemUsedMiB = u.MemTotal/mib, u.MemUsed/mib
	return u
}

// envs answers with the variables of the sandbox, without those that every process has.
func (cfg Config) envs(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), cfg.Call)
	defer cancel()
	t := sandbox.TargetOf(ctx)
	link, err := cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return err
	}
	c, err := processclient.Start(ctx, link, protocol.ChannelOpen{
		Session: t.Session, Argv: []string{"env", "-0"},
	}, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)()
	text, err := output(c)
	if err != nil {
		return err
	}
	ref := protocol.ChannelRef{Session: t.Session, Channel: c.Channel()}
	if err := c.Request(protocol.OpChannelClose, ref, nil); err != nil {
		cfg.Log.Debug("a channel could not be closed", "session", t.Session, "error", err)
	}
	return surface.WriteJSON(w, http.StatusOK, variables(text))
}

// output returns the output of a process that ends.
func output(c *processclient.Client) ([]byte, error) {
	var text []byte
	for {
		out, err := c.Next()
		if err != nil {
			return nil, err
		}
		for _, o := range out {
			text = append(text, o.Stdout...)
			if o.Exit != nil {
				return text, nil
			}
		}
		if len(text) > maxEnvs {
			return nil, fault.New(fault.TooLarge, "envd.envs", "the environment is over %d bytes",
				maxEnvs)
		}
		if err := c.Ack(); err != nil {
			return nil, err
		}
	}
}

// variables parses an environment whose variables end with a NUL byte.
func variables(text []byte) map[string]string {
	all := map[string]string{}
	for v := range strings.SplitSeq(string(text), "\x00") {
		name, value, ok := strings.Cut(v, "=")
		switch name {
		case "PATH", "HOME", "USER", "LOGNAME", "LANG", "TERM", "SHELL", "PWD":
			ok = false
		}
		if ok {
			all[name] = value
		}
	}
	return all
}
