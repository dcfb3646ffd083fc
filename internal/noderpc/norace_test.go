//go:build !race

package noderpc

const raced = false
