package gateway

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
)

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

func randomUint() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}
