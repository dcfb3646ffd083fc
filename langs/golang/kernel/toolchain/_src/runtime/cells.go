// Package runtime knows the cell of an interactive session that a goroutine belongs to, and limits
// errors that would end the process to that goroutine.
package runtime

import (
	"internal/runtime/sys"
	"unsafe"
)

// cells has the functions that the kernel has installed. Without them, and in goroutines that
// belong to no cell, nothing here has an effect.
var cells struct {
	uncaught func(v any) // called with an unrecovered panic value v, in the goroutine that ends
	// called when a stack has grown beyond maxStack; must not allocate or block
	alarm    func()
	maxStack uintptr // bytes
	maxHeap  uint64  // bytes
}

//go:linkname cellInstall
func cellInstall(uncaught func(any), alarm func(), maxStack uintptr) {
	cells.uncaught, cells.alarm, cells.maxStack = uncaught, alarm, maxStack
}

// cellHeap sets the size of the heap, in bytes, above which a large allocation of a cell panics. 0
// means no limit.
//
//go:linkname cellHeap
func cellHeap(max uint64) { cells.maxHeap = max }

// cellEnter makes the calling goroutine, and those that it starts, belong to the cell.
//
//go:linkname cellEnter
func cellEnter(n uint32) { getg().cell = n }

// cellNow returns the cell of the calling goroutine.
//
//go:linkname cellNow
func cellNow() uint32 { return getg().cell }

// cellStack returns the depth of the calling goroutine's stack.
//
//go:linkname cellStack
func cellStack() uintptr { return getg().stack.hi - sys.GetCallerSP() }

// cellEnding reports whether the calling goroutine runs deferred calls because of a Goexit.
//
//go:linkname cellEnding
func cellEnding() bool {
	for p := getg()._panic; p != nil; p = p.link {
		if p.goexit {
			return true
		}
	}
	return false
}

// cellLive counts the goroutines of a cell.
//
//go:linkname cellLive
func cellLive(n uint32) (count int) {
	forEachG(func(gp *g) {
		if gp.cell == n && readgstatus(gp)&^_Gscan != _Gdead {
			count++
		}
	})
	return count
}

// cellUncaught ends the goroutine of a cell that has panicked, after its deferred calls.
func cellUncaught(p *_panic) {
	gp := getg()
	if gp.cell == 0 || cells.uncaught == nil {
		return
	}
	cells.uncaught(p.arg)
	runningPanicDefers.Add(-1)
	goexit1()
}

// cellFatal panics in a cell for an error that would otherwise be fatal.
func cellFatal(s string) {
	if gp := getg(); gp.cell != 0 && cells.uncaught != nil && gp.m.curg == gp && gp.m.locks == 0 {
		panic(errorString(s))
	}
}

// cellStackGrows raises the alarm for a deep stack: the goroutine's next check then panics, while
// there is still room for that.
//
//go:nosplit
func cellStackGrows(gp *g, size uintptr) {
	if gp.cell != 0 && cells.alarm != nil && size > cells.maxStack {
		cells.alarm()
	}
}

// cellLarge panics when an object of 32 KiB or more would exceed the limit.
func cellLarge(size uintptr) {
	gp := getg()
	if gp.cell == 0 || cells.maxHeap == 0 || uint64(size)+
		gcController.heapLive.Load() <= cells.maxHeap {
		return
	}
	if gp.m.curg != gp || gp.m.locks != 0 || gp.m.mallocing != 0 || gp.m.preemptoff != "" {
		return
	}
	if uint64(size) < cells.maxHeap {
		GC() // otherwise the size of live objects is unknown
		if uint64(size)+gcController.heapLive.Load() <= cells.maxHeap {
			return
		}
	}
	panic(errorString("out of memory"))
}

// cellReseed replaces all random state that was copied with the memory of the process.
//
//go:linkname cellReseed
func cellReseed(seed *[32]byte) {
	stw := stopTheWorldGC(stwUnknown)
	lock(&globalRand.lock)
	globalRand.state.Init(*seed)
	unlock(&globalRand.lock)
	for mp := allm; mp != nil; mp = mp.alllink {
		var s [4]uint64
		for i := range s {
			s[i] = bootstrapRand()
		}
		mp.chacha8.Init64(s)
		mp.cheaprand = bootstrapRand()
	}
	bootstrapRandReseed()
	startTheWorldGC(stw)
}

// cellTypes has the types of all modules that typelinksinit has processed.
var cellTypes struct {
	byHash map[uint32][]*_type
	seen   map[*moduledata]bool
}

// cellTypelinks does the work of typelinksinit without iterating again over the types of modules
// that it has already processed. It returns false in a process without a session.
func cellTypelinks() bool {
	if cells.uncaught == nil {
		return false
	}
	c := &cellTypes
	if c.byHash == nil {
		c.byHash = make(map[uint32][]*_type, 1<<14)
		c.seen = map[*moduledata]bool{}
	}
	for i, md := range activeModules() {
		if c.seen[md] {
			continue
		}
		c.seen[md] = true
		if md.typemap == nil && i > 0 {
			tm := make(map[typeOff]*_type, len(md.typelinks))
			pinnedTypemaps = append(pinnedTypemaps, tm)
			md.typemap = tm
			for _, tl := range md.typelinks {
				t := (*_type)(unsafe.Pointer(md.types + uintptr(tl)))
				for _, candidate := range c.byHash[t.Hash] {
					if typesEqual(t, candidate, map[_typePair]struct{}{}) {
						t = candidate
						break
					}
				}
				tm[typeOff(tl)] = t
			}
		}
	collect:
		for _, tl := range md.typelinks {
			t := md.typemap[typeOff(tl)]
			if md.typemap == nil {
				t = (*_type)(unsafe.Pointer(md.types + uintptr(tl)))
			}
			list := c.byHash[t.Hash]
			for _, other := range list {
				if other == t {
					continue collect
				}
			}
			c.byHash[t.Hash] = append(list, t)
		}
	}
	return true
}
