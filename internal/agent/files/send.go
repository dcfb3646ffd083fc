package files

import (
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/frame"
)

// dataWriter gathers data into Data frames. flush sends the rest.
type dataWriter struct {
	t   Transfer
	buf []byte
	n   int
}

func (p *dataWriter) Write(b []byte) (int, error) {
	if p.buf == nil {
		p.buf = make([]byte, frame.HeaderSize+wire.FileChunk)
	}
	for done := 0; done < len(b); {
		m := copy(p.buf[frame.HeaderSize+p.n:], b[done:])
		p.n += m
		done += m
		if p.n == wire.FileChunk {
			if err := p.flush(); err != nil {
				return done, err
			}
		}
	}
	return len(b), nil
}

func (p *dataWriter) flush() error {
	n := p.n
	p.n = 0
	if n == 0 {
		return nil
	}
	return p.t.Put(p.buf, n)
}
