package gateway

import (
	"testing"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// TestViewLinkEnds: a link is good for its time, while the token that made it
// is one of the settings', and for nothing that another purpose sealed.
func TestViewLinkEnds(t *testing.T) {
	w := newWorld(t, nil)
	for x, changed := w.g.keys.get(); x == nil; x, changed = w.g.keys.get() {
		<-changed
	}
	until := time.Now().Add(time.Hour).Unix()
	for _, c := range []struct {
		what    string
		purpose string
		life    time.Duration
		link    viewLink
		ok      bool
	}{
		{"a good one", purposeView, time.Hour, viewLink{"t1", "fixed", "ann", until}, true},
		{"one whose time is over", purposeView, -time.Second, viewLink{"t1", "fixed", "ann", until}, false},
		{"one of a token that is no more", purposeView, time.Hour, viewLink{"t1", "fixed", "bob", until}, false},
		{"one of another tenant's token", purposeView, time.Hour, viewLink{"t2", "fixed", "ann", until}, false},
		{"one for another purpose", purposeToken, time.Hour, viewLink{"t1", "fixed", "ann", until}, false},
		{"one for all sessions", purposeView, time.Hour, viewLink{"t1", "", "ann", until}, false},
	} {
		sealed, err := sealFor(w.g, c.purpose, c.life, c.link)
		if err != nil {
			t.Fatal(err)
		}
		who, err := w.g.openViewLink(viewPrefix + sealed)
		if c.ok && (err != nil || who.Session != "fixed" || who.Tenant != "t1" || who.Until.Unix() != until) {
			t.Errorf("%s: %+v, %v", c.what, who, err)
		}
		if !c.ok && !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
