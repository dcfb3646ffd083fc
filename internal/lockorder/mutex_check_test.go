//go:build lockorder

package lockorder

import "testing"

type (
	first  struct{}
	second struct{}
)

func (first) Rank() int       { return 1 }
func (first) String() string  { return "first" }
func (second) Rank() int      { return 2 }
func (second) String() string { return "second" }

func TestOrder(t *testing.T) {
	var a Mutex[first]
	var b, c Mutex[second]
	panics := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return false
	}
	a.Lock()
	b.Lock()
	c.Lock()
	c.Unlock()
	b.Unlock()
	a.Unlock()
	b.Lock()
	if !panics(a.Lock) {
		t.Error("the first was taken after the second")
	}
	if !panics(c.Lock) {
		t.Error("two of one rank were taken together")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Lock() // another goroutine holds the second
		a.Unlock()
	}()
	<-done
	b.Unlock()
}
