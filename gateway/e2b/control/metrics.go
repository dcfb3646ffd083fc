package control

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/protocol"
)

// maxMeasured is the largest number of sandboxes in one request for their metrics.
const maxMeasured = 100

// metricBody is the use of a sandbox at one time. The node does not measure the caches and the disk
// of a sandbox; these are 0.
type metricBody struct {
	Timestamp string  `json:"timestamp"`
	Unix      int64   `json:"timestampUnix"`
	CPUs      int     `json:"cpuCount"`
	CPUPct    float64 `json:"cpuUsedPct"`
	MemUsed   int64   `json:"memUsed"`
	MemTotal  int64   `json:"memTotal"`
	MemCache  int64   `json:"memCache"`
	DiskUsed  int64   `json:"diskUsed"`
	DiskTotal int64   `json:"diskTotal"`
}

// metrics answers with the use of a sandbox in each minute, and now.
func (s *Plane) metrics(w http.ResponseWriter, r *http.Request) error {
	const farthest = 1 << 40
	start, err := number(r, "start", 0, farthest)
	if err != nil {
		return err
	}
	end, err := number(r, "end", 0, farthest)
	if err != nil {
		return err
	}
	v, err := s.find(r)
	if err != nil {
		return err
	}
	var series protocol.Series
	if err := s.call(r, protocol.OpSessionSeries, protocol.SeriesQuery{Session: v.ID},
		&series); err != nil {
		return err
	}
	all := []metricBody{}
	for _, p := range series.Points {
		m := metricAt(v, p.Time, p.CPUSeconds/60)
		m.MemUsed = p.MemoryBytes
		all = append(all, m)
	}
	if m, ok := metricNow(v); ok {
		all = append(all, m)
	}
	chosen := []metricBody{}
	for _, m := range all {
		if m.Unix >= start && (end == 0 || m.Unix <= end) {
			chosen = append(chosen, m)
		}
	}
	return surface.WriteJSON(w, http.StatusOK, chosen)
}

// manyMetrics answers with the present use of some sandboxes. It leaves out those that do not run.
func (s *Plane) manyMetrics(w http.ResponseWriter, r *http.Request) error {
	var ids []string
	for _, part := range r.URL.Query()["sandbox_ids"] {
		ids = append(ids, strings.Split(part, ",")...)
	}
	if len(ids) == 0 || len(ids) > maxMeasured {
		return invalid("sandbox_ids", "a request names 1 to %d sandboxes", maxMeasured)
	}
	type result struct {
		Sandboxes map[string]metricBody `json:"sandboxes"`
	}
	all := result{map[string]metricBody{}}
	for _, id := range ids {
		session, ok := e2bname.Session(id)
		if !ok {
			return invalid("sandbox_ids", "%.80q is not the id of a sandbox", id)
		}
		var v protocol.Session
		if s.call(r, protocol.OpSessionGet, protocol.SessionRef{Session: session}, &v) != nil {
			continue
		}
		if m, ok := metricNow(v); ok {
			all.Sandboxes[id] = m
		}
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

// metricNow returns the present use of a session. Its processor time is the average of its life.
func metricNow(v protocol.Session) (metricBody, bool) {
	if v.Usage == nil {
		return metricBody{}, false
	}
	now := time.Now()
	m := metricAt(v, now, float64(v.Usage.CPUMS)/float64(max(1, now.UnixMilli()-v.CreatedMS)))
	m.MemUsed = v.Usage.MemoryBytes
	return m, true
}

// metricAt returns the use of a session that used some processors on average.
func metricAt(v protocol.Session, at time.Time, used float64) metricBody {
	l := listed(v)
	cpus := float64(l.CPUs)
	if v.Limits != nil {
		cpus = cmp.Or(v.Limits.CPUs, cpus)
	}
	return metricBody{
		Timestamp: stamp(at.UnixMilli()), Unix: at.Unix(), CPUs: l.CPUs,
		CPUPct: min(100, 100*used/cpus), MemTotal: l.MemoryMB << 20, DiskTotal: l.DiskMB << 20,
	}
}
