// Package host is the kernel's side of the changes in Go's runtime and in package os
// (toolchain/_src): the cell that a goroutine belongs to, the handling of unrecovered panics, and
// the streams of descriptors 0, 1 and 2. It also loads objects and finds symbols in them.
//
// It links only with the changed standard library. The rest of the kernel is ordinary Go.
package host

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
static void* look(const char* name) { return dlsym(RTLD_DEFAULT, name); }
*/
import "C"

import (
	"fmt"
	"io"
	"os"
	"plugin"
	"syscall"
	"unsafe"
)

// Runtime are the hooks of package runtime.
type Runtime struct {
	// Uncaught is called, in its goroutine, with the value that a goroutine of a cell has panicked
	// with. The goroutine ends when it returns.
	Uncaught func(v any)
	// Alarm is called when a stack of a cell has grown beyond MaxStack. It must neither allocate
	// nor block.
	Alarm    func()
	MaxStack uintptr
}

// Files are the hooks of package os.
type Files struct {
	// Write receives the data that an os.File writes to descriptors 1 and 2.
	Write func(fd int, b []byte)
	// Read answers a Read of descriptor 0.
	Read func(b []byte) (int, error)
	// Start is called before a child process starts.
	Start func()
	// Exit is called for os.Exit; when it returns, the process ends.
	Exit func(code int)
}

// Install sets the hooks.
func Install(r Runtime, f Files) {
	runtimeInstall(r.Uncaught, r.Alarm, r.MaxStack)
	osInstall(f.Write, f.Read, f.Start, f.Exit)
}

// Enter makes the calling goroutine, and those that it starts, belong to cell n.
func Enter(n uint32) { enter(n) }

// Now returns the cell of the calling goroutine, 0 for none.
func Now() uint32 { return now() }

// Stack returns the depth of the calling goroutine's stack, in bytes.
func Stack() uintptr { return stack() }

// Ending reports whether the calling goroutine is running deferred calls
// because of a Goexit.
func Ending() bool { return ending() }

// Live returns the number of a cell's goroutines.
func Live(n uint32) int { return live(n) }

// LimitHeap makes large allocations of cells panic beyond max bytes.
func LimitHeap(max uint64) { limitHeap(max) }

// Reseed replaces the runtime's random state.
func Reseed(seed [32]byte) { reseed(&seed) }

// Open loads an object and runs its init functions.
func Open(file string) error {
	_, err := plugin.Open(file)
	return err
}

// ReadInput reads descriptor 0 without the hook.
func ReadInput(f *os.File, b []byte) (int, error) {
	for {
		n, err := syscall.Read(int(f.Fd()), b)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Func returns the function at a dynamic symbol. T must be its type.
func Func[T any](name string) (T, error) {
	var f T
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	p := C.look(n)
	if p == nil {
		return f, fmt.Errorf("there is no symbol %s", name)
	}
	code := &p // a func value points to a pointer to the code
	return *(*T)(unsafe.Pointer(&code)), nil
}

//go:linkname runtimeInstall runtime.cellInstall
func runtimeInstall(uncaught func(any), alarm func(), maxStack uintptr)

//go:linkname osInstall os.cellInstall
func osInstall(write func(int, []byte), read func([]byte) (int, error), start func(),
	exit func(int))

//go:linkname enter runtime.cellEnter
func enter(n uint32)

//go:linkname now runtime.cellNow
func now() uint32

//go:linkname stack runtime.cellStack
func stack() uintptr

//go:linkname ending runtime.cellEnding
func ending() bool

//go:linkname live runtime.cellLive
func live(n uint32) int

//go:linkname limitHeap runtime.cellHeap
func limitHeap(max uint64)

//go:linkname reseed runtime.cellReseed
func reseed(seed *[32]byte)
