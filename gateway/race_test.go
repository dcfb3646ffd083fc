//go:build race

package gateway

// Under the race detector everything is ten times as slow and as large.
const raced = true
