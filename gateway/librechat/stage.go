package librechat

import (
	"context"
	"maps"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// stage is the working folder of a run before its program begins.
type stage struct {
	known  known // nil if it was not needed yet
	stored known // known as the session has it
	// cursor is the position in the changes of the folder; empty if it is not known.
	cursor string
	// ended is the position after the run; empty if it is not known.
	ended string
	// source is the file with the code, which no file of the folder had; empty if there is none.
	source string
	// content is the code, if the file is to be written at the start of the program.
	content string
}

// prepare makes a session ready for a program: it writes the inputs, and the code unless that can be
// an argument or is written at the start of the program. With an error, source is the file that may
// have been written.
func (s *Surface) prepare(ctx context.Context, u store.User, at place, q *request, inputs []input,
	inline bool,
) (g stage, err error) {
	g.cursor = at.cursor
	if len(inputs) > 0 {
		g.needKnown(at, func(session string) known { return s.readKnown(ctx, u, session) })
		wrote, err := s.fill(ctx, u, at.session, inputs, g.known)
		if err != nil {
			return g, err
		}
		if wrote {
			g.cursor = "" // a file of the client is no result
		}
	}
	if q.language.plots {
		if err := s.writeShow(ctx, u, at); err != nil {
			return g, err
		}
	}
	short := inline && len(q.Code) <= maxInline
	switch {
	case short && q.language.inline != nil: // it is an argument
	case short && q.language.command == nil:
		g.source, g.content = q.language.source, q.Code
	default:
		return g, g.writeCode(ctx, s, u, at.session, q)
	}
	if g.cursor == "" {
		g.cursor, err = s.position(ctx, u, at.session)
	}
	return g, err
}

// writeCode writes the code into a file before the program starts. With an error, the stage has the
// file that may have been written.
func (g *stage) writeCode(ctx context.Context, s *Surface, u store.User, session string, q *request,
) (err error) {
	g.content = ""
	if g.source, err = s.writeCode(ctx, u, session, q); err == nil {
		g.cursor, err = s.position(ctx, u, session)
	}
	return err
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
) (source string, err error) {
	const attempts = 100
	for i := range attempts {
		source = q.language.source
		if i > 0 {
			source = strings.Replace(source, ".", "_"+strconv.Itoa(i+1)+".", 1)
		}
		_, err := s.write(ctx, u, protocol.FileWrite{
			FileRef:  protocol.FileRef{Session: session, Path: folder + "/" + source},
			IfAbsent: true,
		}, strings.NewReader(q.Code))
		if !fault.Is(err, fault.Conflict) {
			return source, err
		}
	}
	return "", fault.New(fault.Conflict, "librechat.code",
		"the working folder has %d files with names like %s", attempts, source)
}
