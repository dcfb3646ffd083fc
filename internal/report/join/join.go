// Package join puts together what several nodes answer about the records of use and about the audit
// log.
package join

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/sandgate/sandgate/protocol"
)

// DefaultAudit is the limit of a page without one.
const DefaultAudit = 100

// Include adds another sum of the same key.
func Include(s *protocol.UsageSum, o protocol.UsageSum) {
	s.Sessions += o.Sessions
	s.Cells += o.Cells
	s.Seconds += o.Seconds
	s.CPUSeconds += o.CPUSeconds
	s.MemorySeconds += o.MemorySeconds
	s.BytesIn += o.BytesIn
	s.BytesOut += o.BytesOut
	s.NetworkIn += o.NetworkIn
	s.NetworkOut += o.NetworkOut
}

// Usage adds up reports. The sums are sorted by key.
func Usage(reports ...protocol.UsageReport) protocol.UsageReport {
	all := protocol.UsageReport{Sums: []protocol.UsageSum{}}
	at := map[string]int{}
	for _, r := range reports {
		all.Missing = append(all.Missing, r.Missing...)
		for _, s := range r.Sums {
			i, known := at[s.Key]
			if !known {
				at[s.Key] = len(all.Sums)
				all.Sums = append(all.Sums, s)
				continue
			}
			Include(&all.Sums[i], s)
		}
	}
	slices.SortFunc(all.Sums, func(a, b protocol.UsageSum) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// Audit returns the first entries of several pages by time.
func Audit(limit int, pages ...protocol.AuditPage) protocol.AuditPage {
	var entries []protocol.AuditEntry
	var missing []protocol.MissingRecords
	more := false
	for _, p := range pages {
		entries, missing = append(entries, p.Entries...), append(missing, p.Missing...)
		more = more || p.NextCursor != ""
	}
	all := Page(entries, limit, more)
	all.Missing = missing
	return all
}

// Page returns the first entries by time: limit of them, and those of the same time as the last. more
// states that there are entries after all of these.
func Page(all []protocol.AuditEntry, limit int, more bool) protocol.AuditPage {
	if limit == 0 {
		limit = DefaultAudit
	}
	slices.SortStableFunc(all, func(a, b protocol.AuditEntry) int {
		return a.Time.Compare(b.Time)
	})
	n := min(limit, len(all))
	for n > 0 && n < len(all) && all[n].Time.Equal(all[n-1].Time) {
		n++
	}
	p := protocol.AuditPage{Entries: append([]protocol.AuditEntry{}, all[:n]...)}
	if n > 0 && (more || n < len(all)) {
		p.NextCursor = strconv.FormatInt(all[n-1].Time.UnixNano(), 10)
	}
	return p
}
