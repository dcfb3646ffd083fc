// Package wire implements the driver protocol: requests come from one descriptor, replies and
// output go to another, both as frames of a header of 16 bytes (size u32, type u8, flags u8, two
// zero bytes, channel u32, cell u32, big-endian) and a body.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxBody is the largest body of a frame, in bytes.
const MaxBody = 8 << 20

const headerSize = 16

// The types of frames, and the flag of a frame that was written while descriptors 1 and 2 had no
// unread bytes.
const (
	control   = 1
	stdout    = 4
	stderr    = 5
	message   = 6
	flagClear = 2
)

// Request is a request to the kernel.
type Request struct {
	Op      string            `json:"op"`
	ID      uint64            `json:"id"`
	Cell    uint32            `json:"cell"`
	Code    string            `json:"code"`
	Cursor  int               `json:"cursor"`
	Detail  int               `json:"detail"`
	Silent  bool              `json:"silent"`
	NoInput bool              `json:"no_input"`
	Value   string            `json:"value"`
	EOF     bool              `json:"eof"`
	Env     map[string]string `json:"env"`
	Seed    string            `json:"seed"`
	About   json.RawMessage   `json:"about"`
}

// Reply is the kernel's reply.
type Reply struct {
	Op         string         `json:"op"`
	ID         uint64         `json:"id"`
	Status     string         `json:"status"`
	Count      int            `json:"execution_count,omitempty"`
	EName      string         `json:"ename,omitempty"`
	EValue     string         `json:"evalue,omitempty"`
	ExitCode   *int           `json:"exit_code,omitempty"`
	Matches    []Match        `json:"matches,omitempty"`
	Start      int            `json:"cursor_start,omitempty"`
	End        int            `json:"cursor_end,omitempty"`
	Found      bool           `json:"found,omitempty"`
	Data       map[string]any `json:"data,omitempty"`
	IsComplete string         `json:"is_complete,omitempty"`
	Indent     string         `json:"indent,omitempty"`
	Variables  []Variable     `json:"variables,omitempty"`
	Info       *Info          `json:"info,omitempty"`
}

// Match is one completion.
type Match struct {
	Text string `json:"text"`
	Type string `json:"type,omitempty"`
}

// Variable is one line of the list of variables.
type Variable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Size  string `json:"size"`
	Value string `json:"value"`
}

// Info describes the kernel.
type Info struct {
	Language       string `json:"language"`
	Version        string `json:"version"`
	Implementation string `json:"implementation"`
	FileExtension  string `json:"file_extension"`
	MIMEType       string `json:"mimetype"`
	Banner         string `json:"banner,omitempty"`
	PID            int    `json:"pid,omitempty"`
}

// ErrMalformed is the error for a request whose length is known but whose content is invalid: the
// stream continues after it.
var ErrMalformed = errors.New("malformed request")

// Read reads the next request. Any error other than ErrMalformed ends the stream.
func Read(r io.Reader) (Request, error) {
	var q Request
	var head [headerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return q, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > MaxBody {
		return q, fmt.Errorf("a request of %d bytes: the limit is %d", size, MaxBody)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return q, err
	}
	if head[4] != control {
		return q, fmt.Errorf("%w: a frame of type %d", ErrMalformed, head[4])
	}
	if err := json.Unmarshal(body, &q); err != nil {
		// Perhaps only the id can be read; with it the sender gets a reply.
		var only struct {
			ID uint64 `json:"id"`
		}
		_ = json.Unmarshal(body, &only)
		return Request{ID: only.ID}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return q, nil
}
