// Package blob keeps what nodes hand to each other: objects with a name, which
// appear whole or not at all. Dir is a folder that all nodes share, S3 a bucket
// of an S3-compatible server; both pass the same tests.
package blob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// MaxName is how many bytes a name may have.
const MaxName = 256

// Store is what Dir and S3 have in common.
type Store interface {
	// Put makes an object of what write writes. One of that name is replaced
	// when all of it is there, and stays as it was when write or Put fails.
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Get opens an object: NotFound when there is none. A read is Malformed
	// where the object is not what was put.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Remove removes an object, if there is one.
	Remove(ctx context.Context, name string) error
	// Walk tells of all objects below a folder, in no order, until f fails.
	Walk(ctx context.Context, folder string, f func(name string, changed time.Time) error) error
	// Tidy removes what is left of writes that were begun before then and have
	// not ended, and says of how many.
	Tidy(ctx context.Context, before time.Time) (int, error)
}

// check keeps names inside the store: letters, digits, dashes and underscores,
// with dots inside and slashes between.
func check(op, name string) error {
	bad := name == "" || len(name) > MaxName
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || part[0] == '.'
		for _, r := range part {
			if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r) {
				bad = true
			}
		}
	}
	if bad {
		return fault.Invalid(op, "name", "an object's name has between 1 and %d letters, digits, dashes, underscores, and dots and slashes inside", MaxName)
	}
	return nil
}

// Try puts an object, reads it and removes it: it fails where a node could not
// do its work.
func Try(ctx context.Context, s Store) error {
	name := "tries/" + random()
	err := s.Put(ctx, name, func(w io.Writer) error {
		_, err := io.WriteString(w, name)
		return err
	})
	if err != nil {
		return err
	}
	r, err := s.Get(ctx, name)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
		_ = r.Close() // it was read to its end
	}
	if rerr := s.Remove(context.WithoutCancel(ctx), name); err == nil {
		err = rerr
	}
	return err
}

func random() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// unavailable is the error of a store that does not answer, or not in time.
func unavailable(op, message string, err error) error {
	return &fault.Error{Kind: fault.Unavailable, Op: op, Message: message, RetryAfter: 5, Err: err}
}

// full is the error of a store that takes no more.
func full(op string, err error) error {
	return &fault.Error{Kind: fault.Exhausted, Op: op, Message: "the blob store is full", RetryAfter: 60, Err: err}
}

// denied is the error of a store that does not let this node do what it has to.
// It is the operator's to mend, and no user's.
func denied(op string, err error) error {
	return &fault.Error{Kind: fault.Host, Op: op, Message: "the blob store denies access", Err: err}
}

func none(op, name string) error {
	return fault.New(fault.NotFound, op, "there is no object %s", name)
}
