package gvisor

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/internal/testenv"
)

// measure reports the median and the maximum of a benchmark beside the mean.
func measure(b *testing.B, once func() time.Duration) {
	var all []time.Duration
	for b.Loop() {
		all = append(all, once())
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "max-ms")
}

func BenchmarkCreate(b *testing.B) {
	r := newRuntime(b)
	measure(b, func() time.Duration {
		begin := time.Now()
		s, err := r.Create(b.Context(), testSpec())
		fatal(b, err)
		took := time.Since(begin)
		b.StopTimer()
		destroy(b, s)
		b.StartTimer()
		return took
	})
}

// BenchmarkBoot measures until the first line of the agent.
func BenchmarkBoot(b *testing.B) {
	r := newRuntime(b)
	measure(b, func() time.Duration {
		begin := time.Now()
		g := boot(b, r, testSpec())
		took := time.Since(begin)
		b.StopTimer()
		destroy(b, g.Sandbox)
		b.StartTimer()
		return took
	})
}

// BenchmarkRestore measures until the answer to a first request, with the creation of the sandbox.
func BenchmarkRestore(b *testing.B) {
	r := newRuntime(b)
	dir := snapshot(b, r, 1)
	measure(b, func() time.Duration {
		begin := time.Now()
		g := restore(b, r, dir, testSpec())
		g.ask("count")
		took := time.Since(begin)
		b.StopTimer()
		destroy(b, g.Sandbox)
		b.StartTimer()
		return took
	})
}

// BenchmarkRestoreBlank starts from a sandbox that was created in advance.
func BenchmarkRestoreBlank(b *testing.B) {
	r := newRuntime(b)
	dir := snapshot(b, r, 1)
	measure(b, func() time.Duration {
		b.StopTimer()
		s, err := r.Create(b.Context(), testSpec())
		fatal(b, err)
		b.StartTimer()
		begin := time.Now()
		fatal(b, s.Restore(b.Context(), dir, CheckQuick))
		talk(b, s).ask("count")
		took := time.Since(begin)
		b.StopTimer()
		destroy(b, s)
		b.StartTimer()
		return took
	})
}

func BenchmarkPause(b *testing.B) {
	g := boot(b, newRuntime(b), testSpec())
	measure(b, func() time.Duration {
		begin := time.Now()
		fatal(b, g.Pause(b.Context()))
		took := time.Since(begin)
		b.StopTimer()
		fatal(b, g.Resume(b.Context()))
		b.StartTimer()
		return took
	})
}

func BenchmarkResume(b *testing.B) {
	g := boot(b, newRuntime(b), testSpec())
	measure(b, func() time.Duration {
		b.StopTimer()
		fatal(b, g.Pause(b.Context()))
		b.StartTimer()
		begin := time.Now()
		fatal(b, g.Resume(b.Context()))
		return time.Since(begin)
	})
}

func BenchmarkCheckpoint(b *testing.B) {
	r := newRuntime(b)
	base := b.TempDir()
	n := 0
	measure(b, func() time.Duration {
		b.StopTimer()
		g := boot(b, r, testSpec())
		b.StartTimer()
		n++
		begin := time.Now()
		fatal(b, g.Checkpoint(b.Context(), filepath.Join(base, itoa(n))))
		took := time.Since(begin)
		b.StopTimer()
		destroy(b, g.Sandbox)
		b.StartTimer()
		return took
	})
}

func BenchmarkDestroy(b *testing.B) {
	r := newRuntime(b)
	measure(b, func() time.Duration {
		b.StopTimer()
		g := boot(b, r, testSpec())
		b.StartTimer()
		begin := time.Now()
		destroy(b, g.Sandbox)
		return time.Since(begin)
	})
}

// BenchmarkRoundTrip measures one line to the agent and one back.
func BenchmarkRoundTrip(b *testing.B) {
	g := boot(b, newRuntime(b), testSpec())
	measure(b, func() time.Duration {
		begin := time.Now()
		g.ask("echo x")
		return time.Since(begin)
	})
}

// BenchmarkClaim takes a restored sandbox from a warm pool.
func BenchmarkClaim(b *testing.B) {
	r := newRuntime(b)
	dir := snapshot(b, r, 1)
	p := pool.New(func(ctx context.Context) (*Sandbox, error) {
		return r.Restore(ctx, dir, testSpec(), CheckNone)
	},
		func(s *Sandbox) { destroy(b, s) }, pool.Options{Size: 2, Parallel: 2})
	defer p.Close()
	measure(b, func() time.Duration {
		b.StopTimer()
		testenv.Eventually(b, "the pool is full", func() bool { return p.Stats().Ready == 2 })
		b.StartTimer()
		begin := time.Now()
		s, _, err := p.Claim(b.Context(), "a")
		took := time.Since(begin)
		fatal(b, err)
		b.StopTimer()
		destroy(b, s)
		b.StartTimer()
		return took
	})
}

// BenchmarkMount measures the time that a volume adds to the claim of a waiting sandbox.
func BenchmarkMount(b *testing.B) {
	r := newRuntime(b)
	dir := b.TempDir()
	measure(b, func() time.Duration {
		g := boot(b, r, volumeSpec())
		begin := time.Now()
		fatal(b, g.Mount(b.Context(), Volume{Name: "v", Dir: dir}))
		took := time.Since(begin)
		destroy(b, g.Sandbox)
		return took
	})
}
