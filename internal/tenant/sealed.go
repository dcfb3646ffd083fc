package tenant

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"

	"github.com/sandgate/sandgate/fault"
)

// SealKey is how many bytes the key of a sealed store has.
const SealKey = 32

// Sealed returns a store that keeps in another what only who has the key can
// read or make: AES-256-GCM, bound to the version.
func Sealed(v KeyTableStore, key []byte) (KeyTableStore, error) {
	if len(key) != SealKey {
		return nil, fault.New(fault.Host, "tenant.seal", "the key has %d bytes, and not %d", len(key), SealKey)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "tenant.seal", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "tenant.seal", err)
	}
	return &sealed{KeyTableStore: v, aead: aead}, nil
}

type sealed struct {
	KeyTableStore
	aead cipher.AEAD
}

// bound is what a table is sealed with besides the key.
func bound(version uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte("sandgate keys 1 "), version)
}

func (s *sealed) shut(version uint64, table []byte) []byte {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(table)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return s.aead.Seal(nonce, nonce, table, bound(version))
}

// Load opens what is there. What was made with another key is an error.
func (s *sealed) Load(ctx context.Context, have uint64) (uint64, []byte, error) {
	version, b, err := s.KeyTableStore.Load(ctx, have)
	if err != nil || b == nil {
		return version, nil, err
	}
	n := s.aead.NonceSize()
	if len(b) < n {
		return 0, nil, fault.New(fault.Malformed, "tenant.load", "the cluster's table of keys is cut short")
	}
	out, err := s.aead.Open(nil, b[:n], b[n:], bound(version))
	if err != nil {
		return 0, nil, &fault.Error{Kind: fault.Malformed, Op: "tenant.load", Message: "the cluster's table of keys was sealed with another keys.secret", Err: err}
	}
	return version, out, nil
}

func (s *sealed) Replace(ctx context.Context, was, is uint64, table []byte) error {
	return s.KeyTableStore.Replace(ctx, was, is, s.shut(is, table))
}

func (s *sealed) Restore(ctx context.Context, is uint64, table []byte) error {
	return s.KeyTableStore.Restore(ctx, is, s.shut(is, table))
}
