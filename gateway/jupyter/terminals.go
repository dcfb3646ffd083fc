package jupyter

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/sandgate/sandgate/gateway/jupyter/contents"
	"github.com/sandgate/sandgate/gateway/jupyter/terminals"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// tagTerminal is the tag of terminals that Jupyter's clients have opened. They are closed when their
// programs have exited.
const tagTerminal = "jupyter"

// terminalBody is a terminal as clients see it.
type terminalBody struct {
	Name         string `json:"name"`
	LastActivity string `json:"last_activity"`
}

// terminalName returns the name of a terminal: its channel, and the session before it at the
// server-wide server.
func (p *place) terminalName(session, channel string) string {
	if p.session != "" {
		return channel
	}
	return session + "_" + channel
}

// parseTerminal returns the session and the channel of a terminal's name.
func (p *place) parseTerminal(name string) (session, channel string, ok bool) {
	if !surface.ValidID(name) {
		return "", "", false
	}
	if p.session != "" {
		return p.session, name, true
	}
	at := strings.LastIndexByte(name, '_')
	if at < 0 {
		return "", "", false
	}
	return name[:at], name[at+1:], true
}

// terminalsOf returns the terminals of a session whose programs run.
func (p *place) terminalsOf(v protocol.Session) []terminalBody {
	var all []terminalBody
	for _, c := range v.Channels {
		if c.Kind == "terminal" && c.State != "exited" && v.State != "lost" {
			all = append(all, terminalBody{p.terminalName(v.ID, c.ID), stampMS(v.ActiveMS)})
		}
	}
	return all
}

func (s terminalAPI) listTerminals(w http.ResponseWriter, r *http.Request) error {
	sessions, err := s.sessions(r)
	if err != nil {
		return err
	}
	all := []terminalBody{}
	for _, v := range sessions {
		all = append(all, placed(r).terminalsOf(v)...)
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

// findTerminal returns the terminal with a name. Errors: NotFound.
func (s terminalAPI) findTerminal(r *http.Request, name string) (terminalBody, error) {
	p := placed(r)
	session, _, ok := p.parseTerminal(name)
	var v protocol.Session
	var err error
	if ok {
		err = s.call(r, protocol.OpSessionGet, protocol.SessionRef{Session: session}, &v)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return terminalBody{}, err
	}
	if ok && err == nil {
		for _, t := range p.terminalsOf(v) {
			if t.Name == name {
				return t, nil
			}
		}
	}
	return terminalBody{}, fault.New(fault.NotFound, "jupyter.terminal", "there is no such terminal")
}

func (s terminalAPI) getTerminal(w http.ResponseWriter, r *http.Request) error {
	t, err := s.findTerminal(r, r.PathValue("name"))
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, t)
}

// openTerminal opens a shell, in the session of the folder. A request with the name of a terminal gets
// this terminal. Other names are not taken over.
func (s terminalAPI) openTerminal(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Name string `json:"name"`
		Cwd  string `json:"cwd"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.Name != "" {
		t, err := s.findTerminal(r, q.Name)
		if err == nil {
			return surface.WriteJSON(w, http.StatusOK, t)
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	p := placed(r)
	session, folder := p.sessionOf(q.Cwd)
	if !contents.Valid(folder) {
		return fault.Invalid("jupyter.terminal", "cwd", "there is no such folder")
	}
	if session == "" {
		var err error
		if session, err = s.ensureHome(r); err != nil {
			return err
		}
	}
	var c protocol.Channel
	err := s.call(r, protocol.OpChannelOpen, protocol.ChannelOpen{
		Session: session, Kind: "terminal", Cwd: folder, Tag: tagTerminal,
		Key: "jupyter-terminal-" + rand.Text(),
	}, &c)
	if err != nil {
		return err
	}
	t, err := s.findTerminal(r, p.terminalName(session, c.ID))
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, t)
}

func (s terminalAPI) deleteTerminal(w http.ResponseWriter, r *http.Request) error {
	t, err := s.findTerminal(r, r.PathValue("name"))
	if err != nil {
		return err
	}
	session, channel, _ := placed(r).parseTerminal(t.Name) // it has one
	err = s.call(r, protocol.OpChannelClose,
		protocol.ChannelRef{Session: session, Channel: channel}, nil)
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// terminalSocket serves the WebSocket of a terminal. It answers the handshake once it is attached, so
// that an unknown terminal is a 404.
func (s terminalAPI) terminalSocket(w http.ResponseWriter, r *http.Request) error {
	if err := checkUpgrade(r); err != nil {
		return err
	}
	p := placed(r)
	session, channel, ok := p.parseTerminal(r.PathValue("name"))
	if !ok {
		return fault.New(fault.NotFound, "jupyter.terminal", "there is no such terminal")
	}
	leave, err := s.sockets.join(p.who, session+"\x00"+channel)
	if err != nil {
		return err
	}
	defer leave()
	c, err := s.attachTerminal(r, session, channel)
	if err != nil {
		return err
	}
	ws, err := accept(w, r, false)
	if err != nil {
		return nil // the handshake is answered
	}
	t := s.newSocket(ws, p.who)
	err = c.Serve(t)
	t.close(err)
	if fault.Is(err, fault.KernelDied) && c.Terminal().Tag == tagTerminal {
		// Another connection may have closed it.
		_ = s.call(r, protocol.OpChannelClose,
			protocol.ChannelRef{Session: session, Channel: channel}, nil)
	}
	return nil
}

func (s terminalAPI) attachTerminal(r *http.Request, session, channel string,
) (*terminals.Conn, error) {
	ctx, cancel := s.bounded(r)
	defer cancel()
	link, err := s.cfg.Node.Open(ctx, placed(r).who)
	if err != nil {
		return nil, err
	}
	return terminals.Attach(ctx, link, session, channel)
}
