package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"unsafe"
)

const (
	page    = 4096
	regions = 12
	// regionPages is the size of a region at first. A region has twice as much at most.
	regionPages = 400
)

// memory is memory that the process maps itself, with contents that depend only on the operations
// on it.
type memory struct {
	all []region
	rng *rand.Rand
}

// region is one mapping, readable and writable.
type region struct {
	at     uintptr
	bytes  uintptr
	shared bool
}

// pointer returns a pointer to memory that Go does not know.
//
//go:nosplit
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

func (r region) pages() int { return int(r.bytes / page) }

func (r region) words() []uint64 {
	return unsafe.Slice((*uint64)(pointer(r.at)), r.bytes/8)
}

// newMemory fills memory: with pages of numbers, and between them with empty ones.
func newMemory() *memory {
	debug.SetGCPercent(-1) // a child of fork must find no collection under way
	m := &memory{}
	for i := range regions {
		m.all = append(m.all, m.mapped(i == 3))
		numbers(m.all[i].words(), uint64(i)<<32)
	}
	return m
}

// numbers fills words with numbers, except for two of seven pages.
func numbers(words []uint64, seed uint64) {
	for n := range words {
		if n/512%7 < 5 {
			words[n] = seed + uint64(n)*0x9e3779b97f4a7c15
		}
	}
}

func must(errno syscall.Errno, what string) {
	if errno != 0 {
		fmt.Println(what, errno)
		os.Exit(4)
	}
}

func (m *memory) mapped(shared bool) region {
	flags := uintptr(syscall.MAP_ANON | syscall.MAP_PRIVATE)
	if shared {
		flags = syscall.MAP_ANON | syscall.MAP_SHARED
	}
	at, _, errno := syscall.RawSyscall6(syscall.SYS_MMAP, 0, regionPages*page,
		syscall.PROT_READ|syscall.PROT_WRITE, flags, ^uintptr(0), 0)
	must(errno, "mmap")
	return region{at, regionPages * page, shared}
}

// hash covers all bytes of all regions, and their sizes.
//
//go:nosplit
func (m *memory) hash() uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(m.all); i++ {
		r := m.all[i]
		h = (h ^ uint64(r.bytes)) * 1099511628211
		for at := r.at; at < r.at+r.bytes; at += 8 {
			h = (h ^ *(*uint64)(pointer(at))) * 1099511628211
		}
	}
	return h
}

// part returns a random range of pages of a region.
func (m *memory) part(r region) (at, bytes uintptr) {
	first := m.rng.IntN(r.pages())
	n := 1 + m.rng.IntN(min(r.pages()-first, 1+m.rng.IntN(64)))
	return r.at + uintptr(first)*page, uintptr(n) * page
}

// run does random operations and returns a hash of what they left and of what their children saw.
func (m *memory) run(seed uint64, rounds int) (sum uint64) {
	m.rng = rand.New(rand.NewPCG(seed, 1))
	for range rounds {
		i := m.rng.IntN(len(m.all))
		switch op := m.rng.IntN(100); {
		case op < 50:
			m.write(m.all[i], m.rng.IntN(6))
		case op < 60:
			m.protect(m.all[i])
		case op < 70:
			at, n := m.part(m.all[i])
			_, _, errno := syscall.RawSyscall(syscall.SYS_MADVISE, at, n, syscall.MADV_DONTNEED)
			must(errno, "madvise")
		case op < 80:
			m.all[i] = m.resized(m.all[i])
		case op < 85:
			must(m.unmap(m.all[i].at, m.all[i].bytes), "munmap")
			m.all[i] = m.mapped(m.all[i].shared)
			numbers(m.all[i].words(), m.rng.Uint64())
		case op < 95:
			m.exchange(m.all[i], m.all[m.rng.IntN(len(m.all))])
		default:
			sum = sum*31 + m.fork()
		}
	}
	return sum*31 + m.hash()
}

// write writes a few words, often on neighbouring pages.
func (m *memory) write(r region, n int) {
	words := r.words()
	at := m.rng.IntN(len(words))
	for range n {
		words[at%len(words)] = m.rng.Uint64()
		at += m.rng.IntN(1024)
	}
}

// protect takes rights away and writes after it has given them back.
func (m *memory) protect(r region) {
	at, n := m.part(r)
	for _, rights := range []uintptr{
		[]uintptr{
			syscall.PROT_NONE, syscall.PROT_READ, syscall.PROT_READ | syscall.PROT_EXEC,
		}[m.rng.IntN(3)],
		syscall.PROT_READ | syscall.PROT_WRITE,
	} {
		_, _, errno := syscall.RawSyscall(syscall.SYS_MPROTECT, at, n, rights)
		must(errno, "mprotect")
	}
	*(*uint64)(pointer(at)) = m.rng.Uint64()
}

// resized changes the size of a region, so that it may move, or cuts off its end.
func (m *memory) resized(r region) region {
	size := uintptr(1+m.rng.IntN(2*regionPages)) * page
	if r.shared {
		size = min(size, r.bytes) // what is beyond the end of a shared object cannot be used
	}
	at, _, errno := syscall.RawSyscall6(syscall.SYS_MREMAP, r.at, r.bytes, size, 1, 0, 0)
	must(errno, "mremap")
	if old := r.bytes; size > old {
		numbers(region{at, size, r.shared}.words()[old/8:], m.rng.Uint64())
	}
	return region{at, size, r.shared}
}

func (m *memory) unmap(at, bytes uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall(syscall.SYS_MUNMAP, at, bytes, 0)
	return errno
}

// exchange lets the kernel read from one region and write to another.
func (m *memory) exchange(from, to region) {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		must(err.(syscall.Errno), "pipe")
	}
	src, n := m.part(from)
	dst, room := m.part(to)
	n = min(n, room, 8*page)
	moved, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(pipe[1]), src, n)
	must(errno, "write")
	for got := uintptr(0); got < moved; {
		k, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(pipe[0]), dst+got, moved-got)
		must(errno, "read")
		got += k
	}
	_ = syscall.Close(pipe[0])
	_ = syscall.Close(pipe[1])
}

// fork makes a child. Both write, each at other places, and the child hashes its memory before and
// after it has written, when the parent has. Shared regions take no part: their contents would
// depend on who is first.
func (m *memory) fork() uint64 {
	private := &memory{rng: m.rng}
	for _, r := range m.all {
		if !r.shared {
			private.all = append(private.all, r)
		}
	}
	var places [16]uintptr
	for i := range places {
		words := private.all[m.rng.IntN(len(private.all))].words()
		places[i] = uintptr(unsafe.Pointer(&words[m.rng.IntN(len(words))]))
	}
	var up, down [2]int
	for _, p := range []*[2]int{&up, &down} {
		if err := syscall.Pipe(p[:]); err != nil {
			must(err.(syscall.Errno), "pipe")
		}
	}
	pid := private.child(&places, up[1], down[0])
	for range 8 {
		private.write(private.all[m.rng.IntN(len(private.all))], 3)
	}
	word := [2]uint64{}
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&word)), 16)
	_, err := syscall.Write(down[1], buf[:1])
	if err == nil {
		_, err = syscall.Read(up[0], buf)
	}
	if err == nil {
		_, err = syscall.Wait4(pid, nil, 0, nil)
	}
	if err != nil {
		must(err.(syscall.Errno), "fork")
	}
	for _, fd := range slices.Concat(up[:], down[:]) {
		_ = syscall.Close(fd)
	}
	return word[0]*31 + word[1]
}

// child forks. The child has one thread and must not allocate or grow its stack.
//
//go:nosplit
//go:norace
func (m *memory) child(places *[16]uintptr, up, down int) int {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		must(errno, "clone")
		return int(pid)
	}
	var word [2]uint64
	syscall.RawSyscall(syscall.SYS_READ, uintptr(down), uintptr(unsafe.Pointer(&word)), 1)
	word[0] = m.hash()
	for i := 0; i < len(places); i++ {
		*(*uint64)(pointer(places[i])) = uint64(i) * 0x9e3779b97f4a7c15
	}
	word[1] = m.hash()
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(up), uintptr(unsafe.Pointer(&word)), 16)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
