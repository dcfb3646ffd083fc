package control

import (
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// connectRequest is the body of connect and resume.
type connectRequest struct {
	Timeout *int64 `json:"timeout"`
	Memory  *bool  `json:"memory"`
	// AutoPause is only in requests for resume.
	AutoPause bool `json:"autoPause"`
}

// timeoutRequest is the body of setTimeout.
type timeoutRequest struct {
	Timeout *int64 `json:"timeout"`
}

// refreshRequest is the body of refresh.
type refreshRequest struct {
	Duration *int64 `json:"duration"`
}

// find returns the session of a request. Errors: NotFound, also for a session that is lost.
func (s *Plane) find(r *http.Request) (v protocol.Session, err error) {
	id, err := session(r)
	if err != nil {
		return v, err
	}
	if err := s.call(r, protocol.OpSessionGet, protocol.SessionRef{Session: id}, &v); err != nil {
		return v, err
	}
	if v.State == "lost" {
		what := "was killed"
		if v.Reason == "expired" {
			what = "has expired"
		}
		return v, fault.New(fault.NotFound, "e2b.sandbox", "sandbox %s %s", e2bname.ID(id), what)
	}
	return v, nil
}

// get describes a sandbox. Early clients connect by it.
func (s *Plane) get(w http.ResponseWriter, r *http.Request) error {
	v, err := s.find(r)
	if err != nil {
		return err
	}
	d, err := s.detail(r, v)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, d)
}

// kill deletes a sandbox.
func (s *Plane) kill(w http.ResponseWriter, r *http.Request) error {
	v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.remove(r, v.ID); err != nil {
		return err
	}
	return noContent(w)
}

func (s *Plane) remove(r *http.Request, id string) error {
	return s.call(r, protocol.OpSessionDelete, protocol.SessionRef{Session: id}, nil)
}

// connect returns a sandbox. It resumes a paused one, and never shortens the life of a running one.
func (s *Plane) connect(w http.ResponseWriter, r *http.Request) error {
	var p connectRequest
	if err := decode(r, &p, true); err != nil {
		return err
	}
	seconds, err := lifetime("timeout", p.Timeout)
	if err != nil {
		return err
	}
	v, err := s.find(r)
	if err != nil {
		return err
	}
	if stateOf(v) == statePaused {
		return s.wake(w, r, v, p, seconds)
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	if v.ExpiresMS > 0 && v.ExpiresMS < end.UnixMilli() {
		if err := s.live(r, v.ID, seconds); err != nil {
			return err
		}
	}
	return s.answer(w, http.StatusOK, v)
}

// resume resumes a paused sandbox. Errors: Conflict if it runs.
func (s *Plane) resume(w http.ResponseWriter, r *http.Request) error {
	var p connectRequest
	if err := decode(r, &p, true); err != nil {
		return err
	}
	seconds, err := lifetime("timeout", p.Timeout)
	if err != nil {
		return err
	}
	v, err := s.find(r)
	if err != nil {
		return err
	}
	if stateOf(v) != statePaused {
		return fault.New(fault.Conflict, "e2b.resume", "sandbox %s is not paused", e2bname.ID(v.ID))
	}
	return s.wake(w, r, v, p, seconds)
}

// wake resumes a paused sandbox, which then lives for some seconds.
func (s *Plane) wake(w http.ResponseWriter, r *http.Request, v protocol.Session,
	p connectRequest, seconds int64,
) error {
	if p.Memory != nil && !*p.Memory {
		return unsupported("memory", "a sandbox resumes with its memory on this server")
	}
	if err := s.call(r, protocol.OpResume, protocol.SessionRef{Session: v.ID}, &v); err != nil {
		return err
	}
	if err := s.live(r, v.ID, seconds); err != nil {
		return err
	}
	return s.answer(w, http.StatusCreated, v)
}

// pauseRequest is the body of pause.
type pauseRequest struct {
	Memory *bool `json:"memory"`
}

// pause writes a sandbox with its memory to disk. It has no end then, if the server allows that.
// Errors: Conflict if it is paused.
func (s *Plane) pause(w http.ResponseWriter, r *http.Request) error {
	var p pauseRequest
	if err := decode(r, &p, true); err != nil {
		return err
	}
	if p.Memory != nil && !*p.Memory {
		return unsupported("memory", "a pause always keeps the memory on this server")
	}
	v, err := s.find(r)
	if err != nil {
		return err
	}
	if stateOf(v) == statePaused {
		return fault.New(fault.Conflict, "e2b.pause", "sandbox %s is paused already",
			e2bname.ID(v.ID))
	}
	// A sandbox that is paused at its end keeps its time for when it runs again.
	unbounded := false
	if v.OnExpiry == "" {
		err = s.live(r, v.ID, protocol.Never)
		if err != nil && !fault.Is(err, fault.InvalidArgument) { // a server may bound every life
			return err
		}
		unbounded = err == nil
	}
	if err := s.call(r, protocol.OpHibernate, protocol.SessionHibernate{
		Session: v.ID, Suspend: !optionsOf(v).AutoResume,
	}, &v); err != nil {
		if left := (v.ExpiresMS - time.Now().UnixMilli()) / 1000; unbounded && v.ExpiresMS > 0 {
			_ = s.live(r, v.ID, max(1, left)) // the error of the pause counts
		}
		return err
	}
	return noContent(w)
}

// live ends a session some seconds from now.
func (s *Plane) live(r *http.Request, id string, seconds int64) error {
	return s.call(r, protocol.OpSessionUpdate,
		protocol.SessionUpdate{Session: id, LifetimeSeconds: &seconds}, new(protocol.Session))
}

// setTimeout ends a sandbox some seconds from now, or at once for 0 seconds.
func (s *Plane) setTimeout(w http.ResponseWriter, r *http.Request) error {
	var p timeoutRequest
	if err := decode(r, &p, false); err != nil {
		return err
	}
	if p.Timeout == nil {
		return invalid("timeout", "the number of seconds is missing")
	}
	if *p.Timeout == 0 {
		return s.kill(w, r)
	}
	seconds, err := lifetime("timeout", p.Timeout)
	if err != nil {
		return err
	}
	v, err := s.findRunning(r)
	if err != nil {
		return err
	}
	if err := s.live(r, v.ID, seconds); err != nil {
		return err
	}
	return noContent(w)
}

// refresh extends the life of a sandbox to some seconds from now. It never shortens it.
func (s *Plane) refresh(w http.ResponseWriter, r *http.Request) error {
	var p refreshRequest
	if err := decode(r, &p, true); err != nil {
		return err
	}
	seconds, err := lifetime("duration", p.Duration)
	if err != nil {
		return err
	}
	v, err := s.findRunning(r)
	if err != nil {
		return err
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	if v.ExpiresMS > 0 && v.ExpiresMS < end.UnixMilli() {
		if err := s.live(r, v.ID, seconds); err != nil {
			return err
		}
	}
	return noContent(w)
}

// networkUpdate is the body of setNetwork.
type networkUpdate struct {
	networkRequest
	Internet *bool `json:"allow_internet_access"`
}

// setNetwork changes the hosts that a sandbox may reach. Errors: Conflict for a sandbox that was
// created without access to any.
func (s *Plane) setNetwork(w http.ResponseWriter, r *http.Request) error {
	var p networkUpdate
	if err := decode(r, &p, true); err != nil {
		return err
	}
	to, err := egress(p.Internet, &p.networkRequest)
	if err != nil {
		return err
	}
	v, err := s.find(r)
	if err != nil {
		return err
	}
	change := protocol.SessionUpdate{Session: v.ID, Network: to}
	if err := s.call(r, protocol.OpSessionUpdate, change, &v); err != nil {
		return err
	}
	return noContent(w)
}
