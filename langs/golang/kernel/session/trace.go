package session

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// maxFrames is how many frames a trace shows: half of them from the top, half from the bottom.
const maxFrames = 40

var cellPath = regexp.MustCompile(`^cells/\d+\.`)

// trace returns the origin of a panic: the frames of cells, each with its line, and the names of
// packages between them.
func (s *Session) trace(head string, pcs []uintptr) []string {
	var list []frame
	frames := runtime.CallersFrames(pcs)
	for more := len(pcs) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case cellPath.MatchString(f.Function):
			if strings.HasPrefix(f.Function, "cells/0.") {
				continue
			}
			name := cellPath.ReplaceAllString(f.Function, "")
			if name == "Cell__" {
				name = "cell"
			} else {
				name = strings.TrimPrefix(name, "Cell__.") + "(…)"
			}
			file := filepath.Base(f.File)
			line := s.line(file, f.Line)
			list = push(list, frame{name, file + ":" + strconv.Itoa(f.Line), line, 1})
		case strings.HasPrefix(f.Function, "runtime."), strings.HasPrefix(f.Function,
			"internal/runtime/"), strings.HasPrefix(f.Function, "time.cellFunc."),
			strings.Contains(f.Function, "/langs/golang/kernel/"), f.Function == "":
		default:
			list = push(list, frame{f.Function + "(…)", filepath.Base(f.File) + ":" +
				strconv.Itoa(f.Line), "", 1})
		}
	}
	// The frames that called the cell belong to the kernel.
	for len(list) > 0 && list[len(list)-1].line == "" && !strings.HasPrefix(list[len(list)-1].at,
		"cell") {
		list = list[:len(list)-1]
	}
	out := []string{head, ""}
	for i, f := range list {
		if len(list) > maxFrames && i == maxFrames/2 {
			out = append(out, fmt.Sprintf("… %d more frames …", len(list)-maxFrames))
		}
		if len(list) > maxFrames && i >= maxFrames/2 && i < len(list)-maxFrames/2 {
			continue
		}
		out = append(out, f.name, "    "+f.at)
		if f.times > 1 {
			out = append(out, fmt.Sprintf("    (%d times)", f.times))
		}
		if f.line != "" {
			out = append(out, "        "+strings.TrimSpace(f.line))
		}
	}
	return out
}

// line returns a line of a cell.
func (s *Session) line(file string, n int) string {
	code, _ := s.sources.Load(file)
	text, _ := code.(string)
	if lines := strings.Split(text, "\n"); n > 0 && n <= len(lines) {
		return lines[n-1]
	}
	return ""
}

// frame is one call, or several equal ones in a row.
type frame struct {
	name, at, line string
	times          int
}

func push(list []frame, f frame) []frame {
	if n := len(list); n > 0 && list[n-1].name == f.name && list[n-1].at == f.at {
		list[n-1].times++
		return list
	}
	return append(list, f)
}

func itoa(n int) string { return strconv.Itoa(n) }
