package control

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/protocol"
)

const (
	// maxPage is the largest number of sandboxes in a page of this API, and the default.
	maxPage = 100
	// maxPages is how many pages of the node are read for one page of this API.
	maxPages = 20
)

// filter selects sandboxes.
type filter struct {
	query  protocol.SessionQuery
	states []string
	after  time.Time
	// none is set if no sandbox can match.
	none bool
}

// list answers with a page of the sandboxes that were created by this API.
func (s *Plane) list(w http.ResponseWriter, r *http.Request) error {
	f, err := parseFilter(r)
	if err != nil {
		return err
	}
	page, cursor, err := s.page(r, f)
	if err != nil {
		return err
	}
	setNext(w, cursor)
	return surface.WriteJSON(w, http.StatusOK, page)
}

// listRunning answers clients of the first generation, which know neither pages nor states.
func (s *Plane) listRunning(w http.ResponseWriter, r *http.Request) error {
	f, err := parseFilter(r)
	if err != nil {
		return err
	}
	if r.URL.Query().Get("limit") == "" {
		f.query.Limit = protocol.MaxList
	}
	if r.URL.Query().Get("state") == "" {
		f.states = []string{stateRunning}
	}
	page, cursor, err := s.page(r, f)
	if err != nil {
		return err
	}
	setNext(w, cursor)
	return surface.WriteJSON(w, http.StatusOK, page)
}

// page reads sessions until a page is full. A page after maxPages pages of the node may have fewer
// sandboxes, and the list continues at its cursor.
func (s *Plane) page(r *http.Request, f filter) ([]listedBody, string, error) {
	page := []listedBody{}
	if f.none {
		return page, "", nil
	}
	want := f.query.Limit
	for range maxPages {
		var l protocol.SessionList
		f.query.Limit = want - len(page)
		if err := s.call(r, protocol.OpSessionList, f.query, &l); err != nil {
			return nil, "", err
		}
		for _, v := range l.Sessions {
			if f.passes(v) {
				page = append(page, listed(v))
			}
		}
		f.query.Cursor = l.NextCursor
		if f.query.Cursor == "" || len(page) >= want {
			break
		}
	}
	return page, f.query.Cursor, nil
}

func (f filter) passes(v protocol.Session) bool {
	return v.State != "lost" && slices.Contains(f.states, stateOf(v)) &&
		(f.after.IsZero() || v.CreatedMS > f.after.UnixMilli())
}

// parseFilter reads the parameters of a list. Errors: InvalidArgument.
func parseFilter(r *http.Request) (f filter, err error) {
	q := r.URL.Query()
	limit, err := number(r, "limit", 1, protocol.MaxList)
	if err != nil {
		return f, err
	}
	if limit == 0 {
		limit = maxPage
	}
	f.query = protocol.SessionQuery{
		Limit: int(limit), Cursor: q.Get("nextToken"),
		Labels: []string{e2bname.LabelTemplate},
	}
	switch q.Get("order") {
	case "", "desc":
	case "asc":
		f.query.Order = protocol.OrderCreated
	default:
		return f, invalid("order", "it is asc or desc")
	}
	if t := q.Get("template"); t != "" {
		f.query.Labels = []string{e2bname.LabelTemplate + ":" + t}
	}
	if text := q.Get("startedAfter"); text != "" {
		if f.after, err = time.Parse(time.RFC3339, text); err != nil {
			return f, invalid("startedAfter", "it is a time such as 2026-01-02T15:04:05Z")
		}
	}
	if f.states, err = states(q["state"]); err != nil {
		return f, err
	}
	labels, none, err := metadataFilter(q.Get("metadata"))
	f.query.Labels, f.none = append(f.query.Labels, labels...), none
	return f, err
}

// states reads the parameter state: both states without it. It can be repeated, and each value can
// be a list.
func states(values []string) ([]string, error) {
	both := []string{stateRunning, statePaused}
	var all []string
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			if !slices.Contains(both, one) {
				return nil, invalid("state", "%.40q is neither running nor paused", one)
			}
			all = append(all, one)
		}
	}
	if all == nil {
		return both, nil
	}
	return all, nil
}

// metadataFilter returns the labels that sandboxes must have. Clients encode keys and values before
// they encode the list of them. none is set if a key cannot exist.
func metadataFilter(text string) (labels []string, none bool, err error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, false, invalid("metadata", "it is an encoded list of key=value")
	}
	for key, all := range values {
		for _, value := range all {
			key, value := decoded(key), decoded(value)
			if key == "" {
				none = true
				continue
			}
			if strings.HasPrefix(key, protocol.ReservedLabels) {
				return nil, false, invalid("metadata", "%.80q is a key of the server", key)
			}
			labels = append(labels, e2bname.LabelOf(key)+":"+value)
		}
	}
	slices.Sort(labels)
	return labels, none, nil
}

// decoded returns a value that was encoded once more; the value itself if it was not.
func decoded(value string) string {
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}
