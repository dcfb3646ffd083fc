package document

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/sandgate/sandgate/protocol/document"
	"github.com/sandgate/sandgate/protocol/fault"
)

const path = "notebook.ipynb"

// member is a client of a document in a test.
type member struct {
	*Member
	t      *testing.T
	store  *Store
	tenant string
	joined wire.Joined
	ask    wire.Join
	woken  int
}

func join(t *testing.T, s *Store, p wire.Join) *member {
	t.Helper()
	m := &member{t: t, store: s, tenant: "a", ask: p}
	var err error
	if m.Member, m.joined, err = s.Join("a", p, func() { m.woken++ }); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *member) update(p wire.Update) (wire.Updated, error) {
	p.Session, p.Path, p.Client, p.Epoch = m.ask.Session, m.ask.Path, m.ask.Client, m.joined.Epoch
	return m.store.Pass(m.tenant, p)
}

func (m *member) mustUpdate(p wire.Update) wire.Updated {
	m.t.Helper()
	u, err := m.update(p)
	if err != nil {
		m.t.Fatal(err)
	}
	return u
}

// texts takes all news and returns the updates in it.
func (m *member) texts() []string {
	var all []string
	for news, ok := m.News(); ok; news, ok = m.News() {
		for _, c := range news.Updates {
			all = append(all, string(c.Update))
		}
	}
	return all
}

func in(client uint32) wire.Join {
	return wire.Join{Session: "s", Path: path, Client: client}
}

func text(s string) wire.Update {
	return wire.Update{ID: "d", Update: []byte(s)}
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if fault.KindOf(err) != kind {
		t.Errorf("the error is %v, not of kind %v", err, kind)
	}
}

// TestMembersGetUpdates: each member gets the updates of the others once and in order, a late one
// gets all, and one that returns gets those that it lacks.
func TestMembersGetUpdates(t *testing.T) {
	s := New()
	a, b := join(t, s, in(1)), join(t, s, in(2))
	a.mustUpdate(text("one"))
	b.mustUpdate(text("two"))
	if got := a.texts(); !slices.Equal(got, []string{"two"}) {
		t.Errorf("the first member got %q", got)
	}
	if got := b.texts(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("the second member got %q", got)
	}
	late := join(t, s, in(3))
	if late.joined.Last != 2 || late.joined.ID != "d" || late.woken == 0 {
		t.Errorf("it joined %+v, and was woken %d times", late.joined, late.woken)
	}
	if got := late.texts(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("a late member got %q", got)
	}
	a.Leave()
	b.mustUpdate(text("three"))
	ask := in(1)
	ask.Epoch, ask.After = a.joined.Epoch, 1
	if got := join(t, s, ask).texts(); !slices.Equal(got, []string{"two", "three"}) {
		t.Errorf("a member that returned got %q", got)
	}
	ask.Epoch++ // that of another node, for example
	if got := join(t, s, ask).texts(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("a member with a position of another epoch got %q", got)
	}
	_, err := a.update(wire.Update{ID: "d", Update: []byte("x")})
	if err != nil {
		t.Errorf("the client is a member again: %v", err)
	}
}

// TestOneUpdateReplacesMany: a late member gets the state, and nothing that others have sent since
// is lost.
func TestOneUpdateReplacesMany(t *testing.T) {
	s := New()
	a, b := join(t, s, in(1)), join(t, s, in(2))
	a.mustUpdate(text("one"))
	a.mustUpdate(text("two"))
	b.mustUpdate(text("three"))
	replacing := text("one and two")
	replacing.Replaces = 2
	if u := a.mustUpdate(replacing); u.Updates != 2 || u.Bytes != len("three"+"one and two") {
		t.Errorf("the server keeps %+v", u)
	}
	if got := join(t, s, in(3)).texts(); !slices.Equal(got, []string{"three", "one and two"}) {
		t.Errorf("a late member got %q", got)
	}
	if got := s.tenants["a"]; got != len("three"+"one and two") {
		t.Errorf("%d bytes are counted", got)
	}
}

// TestOneClientDoesTheWork: of two clients that begin a document, or do the same work, the
// second one is refused.
func TestOneClientDoesTheWork(t *testing.T) {
	s := New()
	a, b := join(t, s, in(1)), join(t, s, in(2))
	a.mustUpdate(text("seed"))
	_, err := b.update(wire.Update{ID: "other", Update: []byte("seed")})
	wantKind(t, err, fault.Conflict)
	named := text("merged")
	named.Once = "file 1"
	a.mustUpdate(named)
	_, err = b.update(named)
	wantKind(t, err, fault.Conflict)
	a.mustUpdate(named) // a repeat after a lost connection
	named.Once = "file 2"
	b.mustUpdate(named)
}

// TestMembersSeeEachOther: presence reaches all other members, also late ones, until the member
// leaves. Another tenant's client with the same session is in another document.
func TestMembersSeeEachOther(t *testing.T) {
	s := New()
	a, b := join(t, s, in(1)), join(t, s, in(2))
	a.mustUpdate(wire.Update{Presence: []byte("Ada")})
	a.mustUpdate(wire.Update{Presence: []byte("Ada at 3")})
	late := join(t, s, in(3))
	for _, m := range []*member{b, late} {
		news, ok := m.News()
		if !ok || len(news.Members) != 1 || string(news.Members[0].Presence) != "Ada at 3" {
			t.Errorf("a member got %+v", news)
		}
	}
	a.Leave()
	if news, ok := b.News(); !ok || !slices.Equal(news.Left, []uint32{1}) {
		t.Errorf("after it left, another member got %+v", news)
	}
	_, err := a.update(wire.Update{Presence: []byte("Ada")})
	wantKind(t, err, fault.NotFound)
	b.tenant = "b"
	_, err = b.update(text("x"))
	wantKind(t, err, fault.NotFound)
}

// TestDocumentsAreBounded checks each limit.
func TestDocumentsAreBounded(t *testing.T) {
	s := New()
	a := join(t, s, in(1))
	_, err := a.update(text(string(make([]byte, wire.MaxUpdate+1))))
	wantKind(t, err, fault.TooLarge)
	big := text(string(make([]byte, wire.MaxUpdate)))
	for range wire.MaxBytes / wire.MaxUpdate {
		a.mustUpdate(big)
	}
	_, err = a.update(text("x"))
	wantKind(t, err, fault.Exhausted)
	small := text("x")
	small.Replaces = 8
	for range wire.MaxUpdates {
		a.mustUpdate(small)
		small.Replaces = 0
	}
	_, err = a.update(text("x"))
	wantKind(t, err, fault.Exhausted)
	_, err = a.update(wire.Update{
		Presence: make([]byte, wire.MaxPresence+1),
	})
	wantKind(t, err, fault.TooLarge)
	for i := range wire.MaxMembers - 1 {
		join(t, s, in(uint32(i+2)))
	}
	_, _, err = s.Join("a", in(1000), func() {})
	wantKind(t, err, fault.Exhausted)

	// All other documents of the session are in use, until one is left.
	var last *member
	for i := range wire.MaxOpen - 1 {
		p := in(1)
		p.Path = fmt.Sprint(i)
		last = join(t, s, p)
	}
	p := in(1)
	p.Path = "one more"
	_, _, err = s.Join("a", p, func() {})
	wantKind(t, err, fault.Exhausted)
	last.Leave()
	join(t, s, p)
}

// TestTenantsAreBounded: documents that nobody has open make room for new ones.
func TestTenantsAreBounded(t *testing.T) {
	s := New()
	big := text(string(make([]byte, wire.MaxUpdate)))
	fill := func(i int) (*member, error) {
		p := in(1)
		p.Session = fmt.Sprint(i)
		m := join(t, s, p)
		for range wire.MaxBytes / wire.MaxUpdate {
			if _, err := m.update(big); err != nil {
				return m, err
			}
		}
		return m, nil
	}
	documents := wire.MaxTenantBytes / wire.MaxBytes
	var first *member
	for i := range documents {
		m, err := fill(i)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = m
		}
	}
	_, err := fill(documents)
	wantKind(t, err, fault.Exhausted)
	first.Leave()
	if _, err := fill(documents); err != nil {
		t.Error(err)
	}
	if s.documents[Key{"a", "0", path}] != nil {
		t.Error("the document without members is still there")
	}
}

// TestDocumentsEnd: a document stays for a while after its last member has left, and then goes.
func TestDocumentsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		a := join(t, s, in(1))
		a.mustUpdate(text("one"))
		a.Leave()
		time.Sleep(linger - time.Second)
		b := join(t, s, in(2))
		if got := b.texts(); !slices.Equal(got, []string{"one"}) {
			t.Errorf("within the time it has %q", got)
		}
		time.Sleep(2 * linger)
		synctest.Wait()
		b.mustUpdate(text("two"))
		b.Leave()
		time.Sleep(linger + time.Second)
		synctest.Wait()
		if len(s.documents)+len(s.sessions)+len(s.tenants) != 0 {
			t.Errorf("documents are left: %v, %v, %v", s.documents, s.sessions, s.tenants)
		}
	})
}
