//go:build race

package noderpc

// Under the race detector frames and values are larger.
const raced = true
