package session

import (
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"

	"github.com/sandgate/sandgate/langs/golang/kernel/host"
	"github.com/sandgate/sandgate/langs/golang/kernel/rich"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

const (
	maxVariables = 500
	maxShort     = 200 // bytes of a variable's value
)

// variable is called by a cell for each variable that it declares.
func (s *Session) variable(name string, pointer any) {
	s.mu.Lock()
	s.pointers[name] = pointer
	s.mu.Unlock()
}

// variables lists the session's variables. None of their methods is called.
func (s *Session) variables() []wire.Variable {
	s.mu.Lock()
	pointers := maps.Clone(s.pointers)
	s.mu.Unlock()
	var list []wire.Variable
	for _, name := range slices.Sorted(maps.Keys(pointers)) {
		if len(list) == maxVariables {
			break
		}
		v := reflect.ValueOf(pointers[name]).Elem()
		x := wire.Variable{Name: name, Type: rich.Type(v.Type())}
		guarded(func() { x.Size = rich.Size(v) })
		if !guarded(func() { x.Value = rich.Short(v, maxShort) }) {
			x.Value = "(it is being changed)"
		}
		list = append(list, x)
	}
	return list
}

// guarded reads values that goroutines of cells may be changing. A failure is then a panic, and not
// the end of the process.
func guarded(f func()) (ok bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { ok = recover() == nil }()
		debug.SetPanicOnFault(true)
		host.Enter(^uint32(0))
		f()
	}()
	<-done
	return ok
}

// short returns the value of a variable for inspection.
func (s *Session) short(name string) string {
	s.mu.Lock()
	p := s.pointers[name]
	s.mu.Unlock()
	text := ""
	if p != nil {
		guarded(func() { text = rich.Short(reflect.ValueOf(p).Elem(), 1000) })
	}
	return text
}

// answer answers a question.
func (s *Session) answer(q wire.Request) (r wire.Reply) {
	r = wire.Reply{Op: "reply", ID: q.ID, Status: "ok"}
	defer func() {
		if v := recover(); v != nil {
			r = wire.Reply{
				Op: "reply", ID: q.ID, Status: "error", EName: "KernelError",
				EValue: fmt.Sprint(v),
			}
		}
	}()
	switch q.Op {
	case "variables":
		r.Variables = s.variables()
	default:
		if !s.aboutCode(q, &r) {
			s.help(q, &r)
		}
	}
	return r
}
