package control

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// tagDefault is the tag of everything that was made without one.
const tagDefault = ":default"

// forkRequest is the body of fork.
type forkRequest struct {
	Timeout *int64 `json:"timeout"`
	Count   *int   `json:"count"`
}

// forkBody is the result for one copy. All copies are made, or none.
type forkBody struct {
	Sandbox sandboxBody `json:"sandbox"`
}

// snapshotRequest is the body of snapshot.
type snapshotRequest struct {
	Name string `json:"name"`
}

// snapshotBody is a snapshot.
type snapshotBody struct {
	ID    string   `json:"snapshotID"`
	Names []string `json:"names"`
}

// fork copies a running sandbox with everything that runs in it.
func (s *Plane) fork(w http.ResponseWriter, r *http.Request) error {
	var p forkRequest
	if err := decode(r, &p, true); err != nil {
		return err
	}
	seconds, err := lifetime("timeout", p.Timeout)
	if err != nil {
		return err
	}
	count := 1
	if p.Count != nil {
		count = *p.Count
	}
	if count < 1 || count > protocol.MaxForks {
		return invalid("count", "1 to %d copies are made at once", protocol.MaxForks)
	}
	v, err := s.findRunning(r)
	if err != nil {
		return err
	}
	// A copy does not inherit the labels of the server.
	labels := map[string]string{e2bname.LabelTemplate: templateOf(v)}
	if o := optionsOf(v); o != (e2bname.Options{}) {
		labels[e2bname.LabelOptions] = o.Label()
	}
	var forks protocol.Forks
	if err := s.callAs(r, withoutManage(surface.CallOf(r).Who), protocol.OpFork,
		protocol.SessionFork{
			Session: v.ID, Count: count, LifetimeSeconds: seconds, Labels: labels,
		}, &forks); err != nil {
		return err
	}
	all := []forkBody{}
	for _, one := range forks.Sessions {
		b, err := s.withTokens(one)
		if err != nil {
			return err
		}
		all = append(all, forkBody{b})
	}
	return surface.WriteJSON(w, http.StatusCreated, all)
}

// findRunning is find for operations on sandboxes that are not paused. Errors: Conflict.
func (s *Plane) findRunning(r *http.Request) (protocol.Session, error) {
	v, err := s.find(r)
	if err == nil && stateOf(v) == statePaused {
		err = fault.New(fault.Conflict, "e2b.sandbox", "sandbox %s is paused; connect to it first",
			e2bname.ID(v.ID))
	}
	return v, err
}

// snapshot saves the state of a sandbox, from which others can be created.
func (s *Plane) snapshot(w http.ResponseWriter, r *http.Request) error {
	var p snapshotRequest
	if err := decode(r, &p, true); err != nil {
		return err
	}
	v, err := s.findRunning(r)
	if err != nil {
		return err
	}
	var made protocol.Snapshot
	if err := s.call(r, protocol.OpSnapshot, protocol.SnapshotCreate{
		Session: v.ID, Name: strings.TrimSuffix(p.Name, tagDefault),
	}, &made); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusCreated, snapshotOf(made))
}

func snapshotOf(n protocol.Snapshot) snapshotBody {
	b := snapshotBody{ID: n.ID, Names: []string{}}
	if n.Name != "" {
		b.Names = append(b.Names, n.Name)
	}
	return b
}

// snapshots answers with a page of the caller's snapshots, newest first.
func (s *Plane) snapshots(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var from string
	if id := q.Get("sandboxID"); id != "" {
		var ok bool
		if from, ok = e2bname.Session(id); !ok {
			return invalid("sandboxID", "%.80q is not the id of a sandbox", id)
		}
	}
	var list protocol.SnapshotList
	if err := s.call(r, protocol.OpSnapshotList, struct{}{}, &list); err != nil {
		return err
	}
	name := strings.TrimSuffix(q.Get("name"), tagDefault)
	chosen := slices.DeleteFunc(list.Snapshots, func(n protocol.Snapshot) bool {
		return from != "" && n.Session != from || name != "" && n.Name != name
	})
	page, next, err := pageOf(r, chosen, func(n protocol.Snapshot) string { return n.ID })
	if err != nil {
		return err
	}
	all := []snapshotBody{}
	for _, n := range page {
		all = append(all, snapshotOf(n))
	}
	setNext(w, next)
	return surface.WriteJSON(w, http.StatusOK, all)
}

// pageOf returns the page of a list that a request asks for, and the token of the next page. The
// token is the id of the page's last element.
func pageOf[E any](r *http.Request, all []E, id func(E) string) (page []E, next string, err error) {
	limit, err := number(r, "limit", 1, protocol.MaxList)
	if err != nil {
		return nil, "", err
	}
	if limit == 0 {
		limit = maxPage
	}
	if token := r.URL.Query().Get("nextToken"); token != "" {
		at := slices.IndexFunc(all, func(e E) bool { return id(e) == token })
		if at < 0 {
			return nil, "", invalid("nextToken", "it is not of an earlier page, or its element is gone")
		}
		all = all[at+1:]
	}
	if len(all) > int(limit) {
		return all[:limit], id(all[limit-1]), nil
	}
	return all, "", nil
}

// setNext sets the header with the token of the next page, if there is one.
func setNext(w http.ResponseWriter, token string) {
	if token != "" {
		w.Header().Set("X-Next-Token", token)
	}
}
