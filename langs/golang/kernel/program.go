package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/sandgate/sandgate/langs/golang/kernel/host"
)

// runProgram loads an object and runs its main, in a separate process.
func runProgram(file, path string, args ...string) {
	asks := os.NewFile(3, "asks")
	input := os.NewFile(0, "input")
	os.Args = append([]string{"main"}, args...)
	var left []byte
	host.Install(host.Runtime{}, host.Files{Read: func(b []byte) (int, error) {
		if len(left) == 0 {
			if _, err := asks.Write([]byte{0}); err != nil {
				return 0, err
			}
			line := make([]byte, 64<<10)
			n, err := host.ReadInput(input, line)
			if err != nil {
				return 0, err
			}
			left = line[:n]
		}
		n := copy(b, left)
		left = left[n:]
		return n, nil
	}})
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprint(os.Stderr, report(v, path))
			os.Exit(2)
		}
	}()
	if err := host.Open(file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	run, err := host.Func[func()](path + ".main")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	run()
}

// report returns the text that Go prints for a panic, with only the program's frames.
func report(v any, path string) string {
	text := fmt.Sprint(v)
	if e, ok := v.(error); ok {
		text = e.Error()
	} else if _, ok := v.(string); !ok {
		text = fmt.Sprintf("%T(%v)", v, v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "panic: %s\n\ngoroutine 1 [running]:\n", text)
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasPrefix(f.Function, path+".") {
			fmt.Fprintf(&b, "main.%s(...)\n\t%s:%d\n", strings.TrimPrefix(f.Function, path+"."),
				f.File, f.Line)
		}
	}
	b.WriteString("exit status 2\n")
	return b.String()
}
