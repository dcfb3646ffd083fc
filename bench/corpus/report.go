package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
)

// report counts the cells of a corpus.
type report struct {
	passed, failed, skipped int
	// fresh is how many of those that passed did so in a new kernel only.
	fresh int
	// failures and skips count reasons.
	failures, skips map[string]int
}

func (r *report) skip(reason string) {
	if r.skips == nil {
		r.skips = map[string]int{}
	}
	r.skips[reason]++
	r.skipped++
}

func (r *report) fail(reason string) {
	if r.failures == nil {
		r.failures = map[string]int{}
	}
	r.failures[reason]++
	r.failed++
}

// sum returns the counts in one line.
func (r *report) sum() string {
	rate := 0.0
	if n := r.passed + r.failed; n > 0 {
		rate = 100 * float64(r.passed) / float64(n)
	}
	return fmt.Sprintf("%d of %d pass, %.1f %%; %d of them in a new kernel only; %d do not apply",
		r.passed, r.passed+r.failed, rate, r.fresh, r.skipped)
}

// print prints all counts.
func (r *report) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%s: %s\n", name, r.sum())
	for _, group := range []struct {
		title  string
		counts map[string]int
	}{{"fail", r.failures}, {"do not apply", r.skips}} {
		for _, reason := range slices.SortedFunc(maps.Keys(group.counts), func(a, b string) int {
			return cmp.Or(group.counts[b]-group.counts[a], cmp.Compare(a, b))
		}) {
			fmt.Fprintf(w, "  %s %5d  %s\n", group.title, group.counts[reason], reason)
		}
	}
}

// reason names failures whose cause is known. A pattern that is nil matches all.
type reason struct {
	name string
	// code matches the name of the program and the cell, and its text in the lines below. why
	// matches the failure.
	code, why *regexp.Regexp
}

// nameOf returns the name of the first reason that matches.
func nameOf(known []reason, code, why string) string {
	for _, r := range known {
		if (r.code == nil || r.code.MatchString(code)) && (r.why == nil || r.why.MatchString(why)) {
			return r.name
		}
	}
	return "not explained"
}
