//go:build race

package gateway

// Under the race detector everything takes ten times as much time and memory.
const raced = true
