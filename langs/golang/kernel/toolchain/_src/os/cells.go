// Package os lets a kernel of an interactive session handle a cell's use of descriptors 0, 1 and 2,
// of child processes and of os.Exit.
package os

import _ "unsafe" // for linkname

// cells has the functions that the kernel has installed.
var cells struct {
	write func(fd int, b []byte)
	read  func(b []byte) (int, error)
	start func()
	exit  func(code int) // returns if the process has to end
	files [3]*file       // the standard streams at that time
}

//go:linkname cellInstall
func cellInstall(write func(int, []byte), read func([]byte) (int, error), start func(),
	exit func(int),
) {
	cells.write, cells.read, cells.start, cells.exit = write, read, start, exit
	cells.files = [3]*file{Stdin.file, Stdout.file, Stderr.file}
}

// cellStream reports whether f is the standard output or error that the process began with. The
// descriptor's number does not suffice: after a close, the next file gets it.
func cellStream(f *File) bool {
	return cells.write != nil && f != nil && f.file != nil && (f.file == cells.files[1] &&
		f.pfd.Sysfd == 1 || f.file == cells.files[2] && f.pfd.Sysfd == 2)
}

func cellWrite(f *File, b []byte) (int, error, bool) {
	if !cellStream(f) {
		return 0, nil, false
	}
	cells.write(f.pfd.Sysfd, b)
	return len(b), nil, true
}

func cellRead(f *File, b []byte) (int, error, bool) {
	if cells.read == nil || f == nil || f.file == nil || f.file != cells.files[0] ||
		f.pfd.Sysfd != 0 {
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
