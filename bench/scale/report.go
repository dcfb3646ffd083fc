package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// report has the figures of one run, in the order in which they were measured.
type report struct {
	title string
	names []string
	texts []string
}

func (r *report) add(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.names, r.texts = append(r.names, name), append(r.texts, text)
	fmt.Fprintf(os.Stderr, "%s: %s: %s\n", r.title, name, text)
}

// addTimes adds the median and the 99th percentile of some durations.
func (r *report) addTimes(name string, all []time.Duration) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	r.add(name+", median", "%.1f ms", milliseconds(all[len(all)/2]))
	r.add(name+", 99th percentile", "%.1f ms", milliseconds(all[len(all)*99/100]))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// printTable prints the reports as one table in Markdown.
func printTable(w io.Writer, columns []*report) {
	if len(columns) == 0 {
		return
	}
	head, line := "| figure |", "|---|"
	for _, c := range columns {
		head += " " + c.title + " |"
		line += "---|"
	}
	fmt.Fprintln(w, head+"\n"+line)
	for i, name := range columns[0].names {
		row := []string{name}
		for _, c := range columns {
			text := ""
			if i < len(c.texts) {
				text = c.texts[i]
			}
			row = append(row, text)
		}
		fmt.Fprintln(w, "| "+strings.Join(row, " | ")+" |")
	}
}
