// Package fileclient reads or writes the content of one file over one link to a node, while it is
// transferred. It keeps at most one part of the content in memory.
package fileclient

import (
	"context"
	"io"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// request is the number of the only request with content on a link.
const request = 1 << 20

// partSize is the number of bytes of a file in one Data frame.
const partSize = 64 << 10

// Reader reads the content that follows the reply to an operation.
type Reader struct {
	l    nodecall.Link
	rest []byte
	last bool
}

// Open sends an operation whose reply is followed by Data frames, and decodes the reply into result.
// The end of ctx closes the link while Open waits, and has no effect afterwards. The caller owns the
// link, also when Open fails.
func Open(ctx context.Context, l nodecall.Link, op string, params, result any) (*Reader, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	err := nodecall.Call(l, request, op, 0, params, result, nil)
	if !stop() && err != nil {
		err = fault.New(fault.KindOf(ctx.Err()), "fileclient.open",
			"the node did not open the file in time")
	}
	if err != nil {
		return nil, err
	}
	return &Reader{l: l}, nil
}

// Read returns bytes of the file.
func (b *Reader) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.last {
			return 0, io.EOF
		}
		f, err := nodecall.Next(b.l)
		if err == nil && f.Type == frame.Control {
			err = lateError(f)
		}
		if err != nil {
			return 0, err
		}
		if f.Type == frame.Data {
			b.rest, b.last = f.Body, f.Flags&frame.FlagEnd != 0
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// lateError returns the error of a Control frame between the parts of a file, nil if it has none.
func lateError(f frame.Frame) error {
	if reply, ok := nodecall.ReplyTo(f, request); ok && reply.Error != nil {
		return reply.Error.Err("fileclient.read")
	}
	return nil
}

// Write sends an operation and the bytes of body as Data frames while they arrive, and decodes the
// reply into result. The reply may take confirm after the last byte. If body fails, the link ends
// without FlagEnd and the node writes nothing. The caller owns the link, which Write may close. If the
// node refuses the rest while body waits for data, Write closes a body that is an io.Closer.
func Write(l nodecall.Link, op string, params any, body io.Reader, confirm time.Duration,
	result any,
) error {
	if err := nodecall.Send(l, request, op, 0, params); err != nil {
		return err
	}
	// The reply arrives after the last part. After an error it arrives earlier, and the rest need
	// not be sent.
	replied := make(chan error, 1)
	var refused atomic.Bool
	go func() {
		err := nodecall.Await(l, request, op, result, nil)
		if closer, ok := body.(io.Closer); ok && err != nil {
			refused.Store(true)
			_ = closer.Close()
		}
		replied <- err
	}()
	fail := func(err error) error {
		_ = l.Close()
		<-replied
		return err
	}
	part := make([]byte, partSize)
	for {
		n, err := io.ReadFull(whole{body}, part)
		// The comparison is exact: the error of a body that was cut short may wrap either error.
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			if refused.Load() { // the body was closed for this error
				return <-replied
			}
			return fail(err)
		}
		f := frame.Frame{Type: frame.Data, Body: part[:n]}
		if last {
			f.Flags = frame.FlagEnd
		}
		serr := l.Send(f)
		select {
		case rerr := <-replied:
			if rerr == nil && !last {
				rerr = fault.New(fault.Internal, "fileclient.write",
					"the node replied before the file was complete")
			}
			return rerr
		default:
		}
		if serr != nil {
			return fail(serr)
		}
		if last {
			break
		}
	}
	timer := time.NewTimer(confirm)
	defer timer.Stop()
	select {
	case err := <-replied:
		return err
	case <-timer.C:
		return fail(fault.New(fault.DeadlineExceeded, "fileclient.write",
			"the node did not confirm the file"))
	}
}

// whole reads a body. Its error for a body that was cut short is not the one of io.ReadFull for the
// last part.
type whole struct{ body io.Reader }

func (w whole) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if err == io.ErrUnexpectedEOF {
		err = &fault.Error{
			Kind: fault.Malformed, Op: "fileclient.write", Message: "the body ends too early",
			Err: err,
		}
	}
	return n, err
}

// ParseRange reads the header Range into p. It returns false for headers that are not a single range
// of bytes. Then the whole file is sent, as RFC 9110 requires.
func ParseRange(header string, p *protocol.FileRead) bool {
	spec, ok := strings.CutPrefix(header, "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !dash || strings.ContainsAny(spec, ", ") {
		return false
	}
	if first == "" {
		n, err := strconv.ParseUint(last, 10, 63)
		if err != nil || n == 0 {
			return false
		}
		p.Offset = -int64(n)
		return true
	}
	from, err := strconv.ParseUint(first, 10, 63)
	if err != nil {
		return false
	}
	if last != "" {
		to, err := strconv.ParseUint(last, 10, 63)
		if err != nil || to < from {
			return false
		}
		// Nothing follows the largest position. The length would not fit into an int64.
		if to < math.MaxInt64 {
			p.Length = int64(to - from + 1)
		}
	}
	p.Offset = int64(from)
	return true
}

// ParseETag returns the text between the quotes of a header with one strong ETag, or "".
func ParseETag(header string) string {
	header = strings.TrimSpace(header)
	if len(header) < 3 || header[0] != '"' || header[len(header)-1] != '"' ||
		strings.ContainsAny(header[1:len(header)-1], `",`) {
		return ""
	}
	return header[1 : len(header)-1]
}
