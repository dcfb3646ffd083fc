//go:build race

package node

// Under the race detector frames and values are larger.
const raced = true
