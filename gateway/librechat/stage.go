package librechat

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// stage is the working folder of a run before its program begins.
type stage struct {
	known  known
	stored known            // known as the session has it
	before map[string]entry // its files
	source string           // the file with the code, which no file of the folder had
}

// prepare writes the inputs and the code into a session, and lists its files. With an error, source
// is the file that may have been written. The requests that do not depend on each other are made at
// the same time.
func (s *Surface) prepare(ctx context.Context, u store.User, session string, q *request,
	inputs []input, reused bool,
) (g stage, err error) {
	read := func() {
		if g.known = (known{}); reused {
			g.known = s.readKnown(ctx, u, session)
		}
		g.stored = maps.Clone(g.known)
	}
	var all sync.WaitGroup
	if len(inputs) == 0 {
		all.Go(read)
	} else {
		read()
		if err := s.fill(ctx, u, session, inputs, g.known); err != nil {
			return g, err
		}
	}
	var listing, showing error
	all.Go(func() { g.before, listing = s.list(ctx, u, session) })
	if q.language.plots {
		all.Go(func() {
			_, showing = s.write(ctx, u, protocol.FileWrite{FileRef: protocol.FileRef{
				Session: session, Path: plotsDir + "/librechat_show.py",
			}}, strings.NewReader(show))
		})
	}
	source, code, err := s.writeCode(ctx, u, session, q)
	all.Wait()
	g.source = source
	for _, e := range []error{listing, showing} {
		if err == nil {
			err = e
		}
	}
	if err == nil {
		g.before[source] = code
		g.known.mark(g.before)
	}
	return g, err
}

// writeCode writes the code into a file that the working folder does not have.
func (s *Surface) writeCode(ctx context.Context, u store.User, session string, q *request,
) (source string, code entry, err error) {
	const attempts = 100
	for i := range attempts {
		source = q.language.source
		if i > 0 {
			source = strings.Replace(source, ".", "_"+strconv.Itoa(i+1)+".", 1)
		}
		f, err := s.write(ctx, u, protocol.FileWrite{
			FileRef:  protocol.FileRef{Session: session, Path: folder + "/" + source},
			IfAbsent: true,
		}, strings.NewReader(q.Code))
		if !fault.Is(err, fault.Conflict) {
			return source, entry{f.Size, f.ETag}, err
		}
	}
	return "", entry{}, fault.New(fault.Conflict, "librechat.code",
		"the working folder has %d files with names like %s", attempts, source)
}
