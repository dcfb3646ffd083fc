// Package os lets a kernel of an interactive session see what a cell does with
// descriptors 0, 1 and 2, with child processes and with the process's end.
package os

import _ "unsafe" // for linkname

// cells is what the kernel has installed.
var cells struct {
	write func(fd int, b []byte)
	read  func(b []byte) (int, error)
	start func()
	exit  func(code int) // returns where the process shall end
}

//go:linkname cellInstall
func cellInstall(write func(int, []byte), read func([]byte) (int, error), start func(), exit func(int)) {
	cells.write, cells.read, cells.start, cells.exit = write, read, start, exit
}

// cellStream reports whether f is standard output or error.
func cellStream(f *File) bool {
	return cells.write != nil && f != nil && f.file != nil && (f.pfd.Sysfd == 1 || f.pfd.Sysfd == 2)
}

func cellWrite(f *File, b []byte) (int, error, bool) {
	if !cellStream(f) {
		return 0, nil, false
	}
	cells.write(f.pfd.Sysfd, b)
	return len(b), nil, true
}

func cellRead(f *File, b []byte) (int, error, bool) {
	if cells.read == nil || f == nil || f.file == nil || f.pfd.Sysfd != 0 {
		return 0, nil, false
	}
	n, err := cells.read(b)
	return n, err, true
}

func cellStart() {
	if cells.start != nil {
		cells.start()
	}
}

func cellExit(code int) {
	if cells.exit != nil {
		cells.exit(code)
	}
}
