// Package store keeps the files of a user of LibreChat between runs: uploads, and files that
// programs have created.
//
// The files of a user are in one session, the file session, in which no code of users runs. So a
// program cannot change what another run gets. A file is at files/STORAGE/FILE/OWNER/NAME below the
// home: the ids of its storage session and of the file, what it belongs to, and its name. One
// listing has all that clients ask for. ADR 141 has the reasons.
package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/sessionfile"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// root is the folder of the files in the file session.
const root = "/home/user/files"

// The levels of folders between root and the name of a file, and the most levels of a name.
const (
	levels    = 3
	nameDepth = 10
)

// Node is the part of a node that the store needs.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// User is the owner of files.
type User struct {
	Who noderpc.Principal
	// Key distinguishes the user from all others of the tenant: 21 letters, digits, - and _.
	Key string
}

// Store keeps files. Every field is required.
type Store struct {
	Node Node
	// Session returns the file session of a user. Without create, it returns an empty id if the user
	// has none.
	Session func(ctx context.Context, u User, create bool) (string, error)
	// Call is how long a request to the node may take.
	Call time.Duration
	// Retention is how long a file is kept after it was written.
	Retention time.Duration
}

// File is a stored file.
type File struct {
	Storage, ID, Name string
	Owner             Owner
	Size              int64
	Modified          time.Time
	ETag              string
}

// NewID returns a random id of 126 bits, in the form of all ids of clients.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])[:IDLen]
}

// IDLen is the length of ids.
const IDLen = 21

// ValidID reports whether id has the form of an id.
func ValidID(id string) bool {
	return len(id) == IDLen && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' &&
			r != '_'
	})
}

func (f File) folder() string { return root + "/" + f.Storage + "/" + f.ID }

func (f File) path() string { return f.folder() + "/" + f.Owner.folderName() + "/" + f.Name }

// Create writes a file with a new id. Storage, Name and Owner of f say which. The file has at most limit
// bytes. Errors: TooLarge, DiskFull.
func (s *Store) Create(ctx context.Context, u User, f File, content io.Reader, limit int64,
) (File, error) {
	session, err := s.Session(ctx, u, true)
	if err != nil {
		return f, err
	}
	f.ID = NewID()
	written, err := sessionfile.Write(ctx, s.Node, u.Who, protocol.FileWrite{
		FileRef: protocol.FileRef{Session: session, Path: f.path()},
	}, &bounded{content, limit}, s.Call)
	f.Size, f.ETag, f.Modified = written.Size, written.ETag, time.UnixMilli(written.ModifiedMS)
	return f, err
}

// bounded reads at most left bytes. A longer content is an error.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fault.New(fault.TooLarge, "store.create", "the file is over its limit")
	}
	return n, err
}

// SetOwner changes what a file belongs to.
func (s *Store) SetOwner(ctx context.Context, u User, f File, to Owner) (File, error) {
	session, err := s.Session(ctx, u, true)
	if err != nil || f.Owner == to {
		return f, err
	}
	moved := f
	moved.Owner = to
	err = s.Node.Call(ctx, u.Who, protocol.OpFileMove, protocol.FileMove{
		FileRef: protocol.FileRef{Session: session, Path: f.path()}, To: moved.path(),
	}, nil)
	if err == nil {
		err = s.Node.Call(ctx, u.Who, protocol.OpFileRemove, protocol.FileRemove{
			FileRef: protocol.FileRef{
				Session: session, Path: f.folder() + "/" + f.Owner.folderName(),
			}, Recursive: true,
		}, nil)
	}
	return moved, err
}

// Open reads a file. The caller closes the reader.
func (s *Store) Open(ctx context.Context, u User, f File) (io.ReadCloser, error) {
	session, err := s.Session(ctx, u, false)
	if err != nil {
		return nil, err
	}
	if session == "" {
		return nil, errMissing()
	}
	return sessionfile.Read(ctx, s.Node, u.Who, protocol.FileRead{
		FileRef: protocol.FileRef{Session: session, Path: f.path()},
	})
}

func errMissing() error {
	return &fault.Error{
		Kind: fault.NotFound, Op: "store.get", Field: "file",
		Message: "there is no such file, or it was kept for its time",
	}
}
