package openterminal

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/jupyter/terminals"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// authTime is how long a client may take to send its key.
	authTime = 10 * time.Second
	// maxMessage is the largest message of a client, in bytes.
	maxMessage = 1 << 20
	// userParam is the parameter of the query with the user of a WebSocket.
	userParam = "user_id"
)

// The codes with which clients expect a WebSocket to be closed.
const (
	closeUnauthorized = 4001
	closeNotFound     = 4004
)

// authenticateTerminal finds the principal of a request for a terminal. A WebSocket may have its key
// in the first message instead.
func (s *Surface) authenticateTerminal(r *http.Request) (context.Context, noderpc.Principal,
	error,
) {
	if surface.Secret(r) == "" && isUpgrade(r) {
		return r.Context(), noderpc.Principal{}, nil
	}
	return surface.ByKey(s.cfg.Auth)(r)
}

func isUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// caller returns the call of a request for a terminal. A WebSocket has the user in its query.
func (s *Surface) caller(r *http.Request, who noderpc.Principal) (*call, error) {
	c := &call{
		Surface: s, who: who,
		place: conversation.PlaceOf(r, surfaces.OpenTerminal, s.cfg.Settings),
	}
	if c.place.User == "" {
		c.place.User = r.URL.Query().Get(userParam)
	}
	if err := auth.Permit("openterminal.terminal", who, protocol.ScopeManage); err != nil {
		return nil, err
	}
	return c, c.place.Check()
}

// terminal describes a terminal, or connects a WebSocket with it.
func (s *Surface) terminal(w http.ResponseWriter, r *http.Request) error {
	if isUpgrade(r) {
		return s.serveSocket(w, r)
	}
	c, err := s.caller(r, surface.CallOf(r).Who)
	if err != nil {
		return err
	}
	session, channel, err := c.owned(r.Context(), r.PathValue("terminal"))
	if err != nil {
		return err
	}
	c.session.ID = session
	var list protocol.ChannelList
	if err := c.node(r.Context(), protocol.OpChannelList,
		protocol.ChannelsWanted{Session: session}, &list); err != nil {
		return err
	}
	for _, ch := range list.Channels {
		if ch.ID == channel && ch.Kind == "terminal" && ch.State != "exited" {
			return surface.WriteJSON(w, http.StatusOK, terminalBody{
				ID: terminalID(session, channel), PID: ch.PID,
				CreatedAt: time.Now().UTC().Format(time.RFC3339),
			})
		}
	}
	return noTerminal()
}

// serveSocket serves the WebSocket of a terminal.
func (s *Surface) serveSocket(w http.ResponseWriter, r *http.Request) error {
	who := surface.CallOf(r).Who
	release, err := s.sockets.Reserve("openterminal.socket", who.Tenant)
	if err != nil {
		s.cfg.Full()
		return err
	}
	defer func() { release() }()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the gateway has checked the origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil // the handshake is answered
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(maxMessage)
	if who.Tenant == "" {
		if who, err = s.firstMessage(r.Context(), ws); err != nil {
			_ = ws.Close(closeUnauthorized, "the first message has no valid key")
			return nil
		}
		release() // the place of a client without a key
		if release, err = s.sockets.Reserve("openterminal.socket", who.Tenant); err != nil {
			release = func() {}
			s.cfg.Full()
			_ = ws.Close(websocket.StatusTryAgainLater, "there are too many connections")
			return nil
		}
	}
	conn, err := s.attach(r, who)
	if err != nil {
		code, why := websocket.StatusCode(closeNotFound), "there is no such terminal"
		if !fault.Is(err, fault.NotFound) {
			code, why = websocket.StatusTryAgainLater, surface.PublicOf(err).Message
		}
		_ = ws.Close(code, why)
		return nil
	}
	t := newSocket(s, ws, who)
	defer t.stop()
	err = conn.Serve(t)
	if fault.Is(err, fault.KernelDied) || fault.Is(err, fault.SandboxLost) {
		_ = ws.Close(websocket.StatusNormalClosure, "the program has ended")
	}
	return nil
}

// firstMessage returns the principal of the key in the first message. Errors: Unauthenticated.
func (s *Surface) firstMessage(ctx context.Context, ws *websocket.Conn,
) (who noderpc.Principal, err error) {
	const op = "openterminal.auth"
	ctx, cancel := context.WithTimeout(ctx, authTime)
	defer cancel()
	defer context.AfterFunc(s.cfg.Leaving, cancel)()
	_, data, err := ws.Read(ctx)
	if err != nil {
		return who, fault.New(fault.Unauthenticated, op, "there was no message")
	}
	var m struct{ Type, Token string }
	if json.Unmarshal(data, &m) != nil || m.Type != "auth" {
		return who, fault.New(fault.Unauthenticated, op, "the message has no key")
	}
	if who, err = s.cfg.Auth.Bearer(m.Token); err != nil {
		return who, err
	}
	if err := s.cfg.Auth.Check(who); err != nil {
		return who, err
	}
	return who, s.cfg.Auth.Meter(who)
}

// attach attaches to the terminal that the path of a request names.
func (s *Surface) attach(r *http.Request, who noderpc.Principal) (*terminals.Conn, error) {
	c, err := s.caller(r, who)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.cfg.Base, s.cfg.Call)
	defer cancel()
	session, channel, err := c.owned(ctx, r.PathValue("terminal"))
	if err != nil {
		return nil, err
	}
	link, err := s.cfg.Node.Open(ctx, who)
	if err != nil {
		return nil, err
	}
	return terminals.Attach(ctx, link, session, channel)
}
