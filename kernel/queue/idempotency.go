package queue

// idempotencyKeys remembers the cells of the last MaxKeys keys.
type idempotencyKeys struct {
	cells map[string]uint32
	order []string
	next  int
}

func (r *idempotencyKeys) cell(key string) (uint32, bool) {
	if key == "" {
		return 0, false
	}
	cell, ok := r.cells[key]
	return cell, ok
}

func (r *idempotencyKeys) add(key string, cell uint32) {
	if key == "" {
		return
	}
	if r.cells == nil {
		r.cells = map[string]uint32{}
	}
	if len(r.order) < MaxKeys {
		r.order = append(r.order, key)
	} else {
		delete(r.cells, r.order[r.next])
		r.order[r.next] = key
		r.next = (r.next + 1) % MaxKeys
	}
	r.cells[key] = cell
}
