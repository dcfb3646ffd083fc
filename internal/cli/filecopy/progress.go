package filecopy

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/cli/output"
)

// progress counts the bytes of a transfer.
type progress struct {
	done, all atomic.Int64
}

// through returns a reader that counts the bytes. size is their total, or 0 if it is not known.
func (p *progress) through(r io.Reader, size int64) io.Reader {
	if p == nil {
		return r
	}
	p.all.Store(size)
	return countReader{r, &p.done}
}

type countReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// show keeps one line on w up to date until the returned function is called.
func (p *progress) show(w io.Writer) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(w, "\r\x1b[K%s", p)
				shown = true
			case <-quit:
				if shown {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

func (p *progress) String() string {
	done, all := p.done.Load(), p.all.Load()
	if all <= 0 {
		return output.Size(done)
	}
	return fmt.Sprintf("%s of %s, %d %%", output.Size(done), output.Size(all),
		min(done*100/all, 100))
}
