package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddress returns an address of this machine that no program uses now, for a server that starts
// later. Its port is below those that the system gives to clients, so that no connection takes it
// meanwhile.
func FreeAddress() (string, error) {
	const attempts, first, end = 100, 10_000, 32_000
	var err error
	for range attempts {
		var l net.Listener
		l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(end-first)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}
