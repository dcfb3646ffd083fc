// Package archive keeps the journals of nodes in the blob store, from where other nodes read them
// when a node has gone.
//
// Limits: lines are in the blob store 15 s after they were written. Objects have at most 2 MiB. A
// reader reads eight at a time, and at most 500,000 objects in all.
package archive

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Blobs is the blob store. An object appears completely or not at all.
type Blobs interface {
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Get returns NotFound for an object that does not exist. A read fails with Malformed when the
	// content was changed.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Remove does nothing for an object that does not exist.
	Remove(ctx context.Context, name string) error
	// Walk calls f for each object below a folder, until f fails.
	Walk(ctx context.Context, folder string, f func(name string, changed time.Time) error) error
}

const (
	root = "records"
	// alive is the object with the time of a node's last complete upload. ended is there when the
	// node has uploaded everything and written nothing since.
	alive, ended = "alive", "ended"
	// partSize is the size of a part of a journal in bytes. A line is shorter.
	partSize = 2 << 20
	// tail ends the name of a part that may grow.
	tail = "tail"
)

// FolderOf returns the name of a node's folder. instance distinguishes the data of nodes that had
// the same name one after another.
func FolderOf(node, instance string) string { return node + "." + instance }

// nodeOf returns the node of a folder.
func nodeOf(folder string) string {
	i := strings.LastIndexByte(folder, '.')
	return folder[:max(i, 0)]
}

// A part is a part of a journal: the lines of one of its files between two offsets. A file is named
// by a hash of its first line, because the journal renames files. A tail has no end.
type part struct {
	journal, file string
	from, to      int64
}

// name returns the name of the part's object in its folder.
func (p part) name() string {
	end := tail
	if p.to > 0 {
		end = fmt.Sprintf("%012d", p.to)
	}
	return fmt.Sprintf("%s/%s-%012d-%s", p.journal, p.file, p.from, end)
}

// parsePart is the reverse of name.
func parsePart(name string) (p part, ok bool) {
	journal, rest, found := strings.Cut(name, "/")
	fields := strings.Split(rest, "-")
	if !found || len(fields) != 3 {
		return p, false
	}
	p.journal, p.file = journal, fields[0]
	var err, terr error
	p.from, err = strconv.ParseInt(fields[1], 10, 64)
	if fields[2] != tail {
		p.to, terr = strconv.ParseInt(fields[2], 10, 64)
	}
	return p, err == nil && terr == nil
}
