// Package fairqueue queues the requests of tenants. Tenants take turns, so that the many requests of
// one tenant do not delay those of others.
package fairqueue

import "slices"

// Line has the requests that wait. The requests of a tenant are served in their order, and tenants
// take turns. The zero value is empty. It is not safe for concurrent use.
type Line[T comparable] struct {
	waiting map[string][]T
	order   []string // the tenants with requests, the next one first
	n       int
}

// Len returns how many requests wait.
func (l *Line[T]) Len() int { return l.n }

// LenOf returns how many requests of a tenant wait.
func (l *Line[T]) LenOf(tenant string) int { return len(l.waiting[tenant]) }

// Join adds a request behind those of its tenant.
func (l *Line[T]) Join(tenant string, x T) {
	if l.waiting == nil {
		l.waiting = map[string][]T{}
	}
	if len(l.waiting[tenant]) == 0 {
		l.order = append(l.order, tenant)
	}
	l.waiting[tenant] = append(l.waiting[tenant], x)
	l.n++
}

// Cancel removes a request. It returns false if the request does not wait.
func (l *Line[T]) Cancel(tenant string, x T) bool {
	i := slices.Index(l.waiting[tenant], x)
	if i < 0 {
		return false
	}
	l.remove(tenant, i)
	return true
}

// Next removes and returns the first request of the next tenant that may have a turn. The tenant
// then comes after all others.
func (l *Line[T]) Next(may func(tenant string) bool) (tenant string, x T, ok bool) {
	for i, tenant := range l.order {
		if !may(tenant) {
			continue
		}
		l.order = append(slices.Delete(l.order, i, i+1), tenant)
		x = l.waiting[tenant][0]
		l.remove(tenant, 0)
		return tenant, x, true
	}
	return "", x, false
}

func (l *Line[T]) remove(tenant string, i int) {
	l.n--
	left := slices.Delete(l.waiting[tenant], i, i+1)
	if l.waiting[tenant] = left; len(left) > 0 {
		return
	}
	delete(l.waiting, tenant)
	l.order = slices.DeleteFunc(l.order, func(t string) bool { return t == tenant })
}
