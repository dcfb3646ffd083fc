package shares

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestHeavyTenants checks which tenants of two processors are heavy after rounds of a second.
func TestHeavyTenants(t *testing.T) {
	many := func(n int, each, first float64) []float64 {
		return append([]float64{first}, slices.Repeat([]float64{each}, n)...)
	}
	for name, c := range map[string]struct {
		used []float64 // seconds of each tenant
		was  []bool
		want []bool
	}{
		"none":                        {},
		"a heavy one and a light one": {used: []float64{1.8, 0.1}, want: []bool{true, false}},
		"two with equal parts":        {used: []float64{1, 1}, want: []bool{false, false}},
		"two with equal parts and a light one": {
			used: []float64{0.95, 0.95, 0.1}, want: []bool{true, true, false},
		},
		"two with unequal parts":     {used: []float64{1.5, 0.5}, want: []bool{true, false}},
		"alone":                      {used: []float64{2}, want: []bool{true}},
		"alone, half of the machine": {used: []float64{1}, want: []bool{false}},
		"idle ones do not count": {
			used: []float64{1.5, 0.001, 0}, want: []bool{true, false, false},
		},
		"many light ones and a heavy one": {
			used: many(20, 0.09, 0.2), want: append([]bool{true}, make([]bool, 20)...),
		},
		"many with equal parts": {
			used: many(20, 2.0/21, 2.0/21), want: make([]bool, 21),
		},
		"above three quarters of the line": {
			used: []float64{0.85, 0.85}, was: []bool{true, false}, want: []bool{true, false},
		},
		"below three quarters of the line": {
			used: []float64{0.7, 0.85}, was: []bool{true, true}, want: []bool{false, true},
		},
		"starved": {used: []float64{0, 1.9}, was: []bool{true, true}, want: []bool{false, true}},
	} {
		var all []*account
		for i, used := range c.used {
			a := &account{used: time.Duration(used * float64(time.Second))}
			a.heavy = c.was != nil && c.was[i]
			all = append(all, a)
		}
		judge(2*time.Second, all)
		for i, a := range all {
			if a.heavy != c.want[i] {
				t.Errorf("%s: tenant %d is heavy: %v", name, i, a.heavy)
			}
		}
	}
}

// program is a tenant in a model of the kernel: it has busy sandboxes and wants some processors.
type program struct {
	account
	boxes int
	wants float64
}

// run lets programs use two processors for a round. Those that are not heavy come first, with equal
// weights. The others have a weight for each sandbox.
func run(all []*program) {
	left := 2.0
	for _, p := range all {
		p.used = 0
	}
	for _, heavy := range []bool{false, true} {
		got := map[*program]float64{}
		// Each step gives out what is left in parts so small that the order does not matter.
		for step := left / 1000; left > step/2; {
			before := left
			for _, p := range all {
				part := step
				if heavy {
					part *= float64(p.boxes) / 10
				}
				part = min(part, left, p.wants-got[p])
				if p.heavy == heavy && part > 0 {
					got[p] += part
					left -= part
				}
			}
			if left == before {
				break
			}
		}
		for p, n := range got {
			p.used = time.Duration(n * float64(roundEvery))
		}
	}
}

// TestHeavyTenantsHaveTheirPart checks the processors that tenants get in 30 seconds in a model of
// the kernel: a heavy one has its part whatever others do, and light ones have what they want.
func TestHeavyTenantsHaveTheirPart(t *testing.T) {
	light := func(n int, wants float64) (all []*program) {
		for range n {
			all = append(all, &program{boxes: 1, wants: wants})
		}
		return all
	}
	for name, c := range map[string]struct {
		all  []*program
		want []float64 // processors of the first tenants
	}{
		"one": {append(light(1, 0.1), &program{boxes: 3, wants: 3}), []float64{0.1, 1.9}},
		"one sandbox beside eight": {
			[]*program{{boxes: 1, wants: 2}, {boxes: 8, wants: 8}, {boxes: 1, wants: 0.1}},
			[]float64{0.95, 0.95, 0.1},
		},
		"one limited sandbox beside eight": {
			[]*program{{boxes: 1, wants: 1}, {boxes: 8, wants: 8}, {boxes: 1, wants: 0.1}},
			[]float64{0.95, 0.95, 0.1},
		},
		"two beside three": {
			[]*program{{boxes: 2, wants: 2}, {boxes: 3, wants: 3}}, []float64{1, 1},
		},
		"beside many light ones that want all": {
			append([]*program{{boxes: 8, wants: 8}}, light(20, 0.1)...),
			[]float64{2.0 / 21, 2.0 / 21},
		},
		"three": {
			[]*program{{boxes: 1, wants: 2}, {boxes: 2, wants: 2}, {boxes: 9, wants: 2}},
			[]float64{2.0 / 3, 2.0 / 3, 2.0 / 3},
		},
	} {
		const rounds = 150
		accounts := make([]*account, len(c.all))
		sum := make([]time.Duration, len(c.all))
		for i, p := range c.all {
			accounts[i] = &p.account
		}
		for range rounds {
			run(c.all)
			for i, p := range c.all {
				sum[i] += p.used
			}
			judge(2*roundEvery, accounts)
		}
		for i, want := range c.want {
			if got := float64(sum[i]) / float64(rounds*roundEvery); math.Abs(got-want) > want/10 {
				t.Errorf("%s: tenant %d gets %.3f processors, want %.3f", name, i, got, want)
			}
		}
	}
}
