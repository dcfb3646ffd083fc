package openterminal

import (
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/process"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// home is the home folder in sandboxes.
	home = "/home/user"
	// labelFolder is the label of a session with the working folder of its conversation.
	labelFolder = "openterminal.cwd"
	// maxRecent is how many sessions of a user are compared to find the one that was used last.
	maxRecent = 20
)

// call is a request in the session of its caller.
type call struct {
	*Surface
	who     noderpc.Principal
	place   conversation.Place
	session protocol.Session // without an id if there is none
}

// finder finds the session of a request.
type finder func(r *http.Request) (*call, error)

// none is for requests that need no session.
func (s *Surface) none(r *http.Request) (*call, error) {
	c := &call{
		Surface: s, who: surface.CallOf(r).Who,
		place: conversation.PlaceOf(r, surfaces.OpenTerminal, s.cfg.Settings),
	}
	return c, c.place.Check()
}

// ensure creates the session if there is none.
func (s *Surface) ensure(r *http.Request) (*call, error) {
	c, err := s.none(r)
	if err == nil {
		err = c.ensureSession(r.Context())
	}
	return c, err
}

func (c *call) ensureSession(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	v, err := c.sessions.Ensure(ctx, c.who, c.place, conversation.PolicyOf(c.cfg.Settings))
	c.session = v.Session
	return err
}

// find is for requests that do not create a session.
func (s *Surface) find(r *http.Request) (*call, error) {
	c, err := s.none(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Call)
	defer cancel()
	c.session, err = s.sessions.Find(ctx, c.who, c.place)
	if fault.Is(err, fault.NotFound) {
		c.session, err = protocol.Session{}, nil
	}
	return c, err
}

// recent is for requests that clients send without the conversation, about ports and terminals:
// their session is the one of the user that was used last.
func (s *Surface) recent(r *http.Request) (*call, error) {
	c, err := s.find(r)
	if err != nil || c.session.ID != "" || c.place.Conversation != "" {
		return c, err
	}
	labels := []string{conversation.LabelSurface + ":" + c.place.Surface}
	if c.place.User != "" {
		labels = append(labels, conversation.LabelUser+":"+c.place.User)
	}
	var list protocol.SessionList
	err = c.node(r.Context(), protocol.OpSessionList, protocol.SessionQuery{
		Labels: labels, Order: protocol.OrderActive, Descending: true, Limit: maxRecent,
	}, &list)
	if err != nil {
		return nil, err
	}
	for _, v := range list.Sessions {
		if p, ok := c.placeOf(v); ok {
			c.session, c.place = v, p
			break
		}
	}
	return c, nil
}

// placeOf returns the place of a session. It is false for a session of another caller or user. The
// name of the session is what decides, since labels can be changed.
func (c *call) placeOf(v protocol.Session) (conversation.Place, bool) {
	p := c.place
	p.Conversation = v.Labels[conversation.LabelConversation]
	return p, v.Name == p.Name(c.who)
}

// node makes one request of the node.
func (c *call) node(ctx context.Context, op string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	return c.cfg.Node.Call(ctx, c.who, op, params, result)
}

// processes works with the processes of the caller.
func (c *call) processes() process.Caller {
	return process.Caller{Node: c.cfg.Node, Who: c.who, Call: c.cfg.Call}
}

// folder returns the working folder of the conversation.
func (c *call) folder() string {
	if f := c.session.Labels[labelFolder]; strings.HasPrefix(f, "/") {
		return f
	}
	return home
}

// path returns the absolute path that a request names. Errors: InvalidArgument.
func (c *call) path(field, name string) (string, error) {
	const op = "openterminal.path"
	switch {
	case name == "":
		return "", fault.Invalid(op, field, "the parameter %s is missing", field)
	case name == "~" || strings.HasPrefix(name, "~/"):
		name = home + name[1:]
	case !strings.HasPrefix(name, "/"):
		name = c.folder() + "/" + name
	}
	name = path.Clean(name)
	return name, surface.CheckPath(op, name)
}

// refOf returns a file of the session.
func (c *call) refOf(name string) protocol.FileRef {
	return protocol.FileRef{Session: c.session.ID, Path: name}
}
