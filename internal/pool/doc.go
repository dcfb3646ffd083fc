// Package pool keeps members ready, each for one use: sandboxes that are
// restored before a session claims them.
package pool
