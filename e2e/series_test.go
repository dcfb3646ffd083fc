package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// TestSeries reads the use of a session in minutes while it sleeps, after the server was killed, and
// after a restart. No read wakes the session.
func TestSeries(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, err := Start(
		ctx, "pool: {size: 1, languages: [python]}\nsessions: {durable: true, durable_every: 1s}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	s := open(t, srv)
	s.run("ok", "print('x' * 5000); sum(range(10**7))")
	path := "/v1/sessions/" + s.id
	read := func(when string) (sum protocol.SeriesPoint) {
		t.Helper()
		var series protocol.Series
		code, err := srv.Get(ctx, path+"/series", &series)
		check(t, err)
		if code != http.StatusOK || len(series.Points) == 0 {
			t.Fatalf("%s: %d, %+v", when, code, series)
		}
		for _, p := range series.Points {
			if !p.Time.After(sum.Time) || !p.Time.Equal(p.Time.Truncate(time.Minute)) {
				t.Errorf("%s: a point of %v follows one of %v", when, p.Time, sum.Time)
			}
			sum.Time = p.Time
			sum.CPUSeconds += p.CPUSeconds
			sum.MemoryBytes = max(sum.MemoryBytes, p.MemoryBytes)
			sum.SentBytes += p.SentBytes
			sum.ReceivedBytes += p.ReceivedBytes
		}
		if sum.CPUSeconds <= 0 || sum.MemoryBytes < 1<<20 || sum.SentBytes < 5000 {
			t.Errorf("%s: the sum is %+v", when, sum)
		}
		var v protocol.Session
		_, err = srv.Get(ctx, path, &v)
		check(t, err)
		if v.State != "hibernated" {
			t.Errorf("%s: the session is %s", when, v.State)
		}
		return sum
	}
	code, err := srv.JSON(ctx, http.MethodPost, path+"/hibernate", nil, nil)
	check(t, err)
	if code != http.StatusOK {
		t.Fatalf("the hibernation: %d", code)
	}
	first := read("hibernated")
	srv.killed(ctx, t)
	if got := read("after the kill"); got.SentBytes < first.SentBytes {
		t.Errorf("after the kill: %+v, before %+v", got, first)
	}
	check(t, srv.Halt(syscall.SIGTERM))
	check(t, srv.Boot(ctx))
	read("after the restart")

	res, err := srv.Do(ctx, http.MethodGet, path+"/series?format=csv", nil)
	check(t, err)
	defer res.Body.Close()
	table, err := io.ReadAll(res.Body)
	check(t, err)
	if !strings.HasPrefix(string(table), "time,cpu_seconds,memory_bytes,sent_bytes,received_bytes\n2") {
		t.Errorf("the table is %s", table)
	}
	var series protocol.Series
	_, err = srv.Get(ctx, path+"/series?to_ms=1000", &series)
	check(t, err)
	if len(series.Points) != 0 {
		t.Errorf("the points of 1970 are %+v", series)
	}
}
