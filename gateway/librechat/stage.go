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
	known  known            // nil if it was not needed yet
	stored known            // known as the session has it
	before map[string]entry // its files
	// source is the file with the code, which no file of the folder had; empty if there is none.
	source string
}

// prepare writes the inputs and the code into a session, and lists its files. With an error, source
// is the file that may have been written. The requests that do not depend on each other are made at
// the same time. Short code of some languages needs no file, but the working folder.
func (s *Surface) prepare(ctx context.Context, u store.User, at place, q *request, inputs []input,
) (g stage, err error) {
	if len(inputs) > 0 {
		g.needKnown(at, func(session string) known { return s.readKnown(ctx, u, session) })
		if err := s.fill(ctx, u, at.session, inputs, g.known); err != nil {
			return g, err
		}
	}
	var all sync.WaitGroup
	var listing, showing error
	var code entry
	if g.before = at.before; g.before == nil || len(inputs) > 0 {
		all.Go(func() { g.before, listing = s.list(ctx, u, at.session) })
	}
	if q.language.plots {
		all.Go(func() { showing = s.writeShow(ctx, u, at) })
	}
	if at.before == nil || q.language.inline == nil || len(q.Code) > maxInline {
		g.source, code, err = s.writeCode(ctx, u, at.session, q)
	}
	all.Wait()
	for _, e := range []error{listing, showing} {
		if err == nil {
			err = e
		}
	}
	if g.before == nil {
		g.before = map[string]entry{}
	}
	if err == nil && g.source != "" {
		g.before[g.source] = code
	}
	return g, err
}

// needKnown reads the known of a session with read, unless the stage has it.
func (g *stage) needKnown(at place, read func(session string) known) {
	if g.known != nil {
		return
	}
	if g.known = (known{}); at.reused {
		g.known = read(at.session)
	}
	g.stored = maps.Clone(g.known)
}

// writeShow writes the backend of matplotlib. A session that stays has it after the first time.
func (s *Surface) writeShow(ctx context.Context, u store.User, at place) error {
	if at.runtime != "" && s.stays.get(at.runtime) == (staying{at.session, true}) {
		return nil
	}
	_, err := s.write(ctx, u, protocol.FileWrite{FileRef: protocol.FileRef{
		Session: at.session, Path: plotsDir + "/librechat_show.py",
	}}, strings.NewReader(show))
	if err == nil && at.runtime != "" {
		s.stays.set(at.runtime, staying{at.session, true})
	}
	return err
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
