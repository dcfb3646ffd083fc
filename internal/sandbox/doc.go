// Package sandbox is the interface of isolation backends: it starts machines,
// restores them from snapshots, and reports what a backend can do. Package
// sandbox/gvisor implements it.
package sandbox
