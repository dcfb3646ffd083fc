package openterminal

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// tagTerminal is the tag of terminals that clients of this surface have opened.
const tagTerminal = "openterminal"

// maxTerminals is the most terminals of a session that clients have opened.
const maxTerminals = 8

// terminalBody is a terminal as clients see it.
type terminalBody struct {
	ID        string `json:"id"`
	CreatedAt string `json:"created_at"`
	PID       int    `json:"pid"`
}

// terminalID returns the id of a terminal: its session and its channel.
func terminalID(session, channel string) string { return session + "_" + channel }

// parseTerminal returns the session and the channel of an id. Errors: NotFound.
func parseTerminal(id string) (session, channel string, err error) {
	at := strings.LastIndexByte(id, '_')
	if at < 0 || !surface.ValidID(id) {
		return "", "", noTerminal()
	}
	return id[:at], id[at+1:], nil
}

func noTerminal() error {
	return fault.New(fault.NotFound, "openterminal.terminal", "there is no such terminal")
}

// openTerminal opens a shell in the working folder.
func openTerminal(w http.ResponseWriter, r *http.Request, c *call) error {
	if c.session.ID == "" {
		if err := c.ensureSession(r.Context()); err != nil {
			return err
		}
	}
	if err := c.makeRoom(r.Context()); err != nil {
		return err
	}
	var ch protocol.Channel
	if err := c.node(r.Context(), protocol.OpChannelOpen, protocol.ChannelOpen{
		Session: c.session.ID, Kind: "terminal", Cwd: c.folder(), Tag: tagTerminal,
	}, &ch); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, terminalBody{
		terminalID(c.session.ID, ch.ID), time.Now().UTC().Format(time.RFC3339), ch.PID,
	})
}

// makeRoom closes the oldest terminal if there are too many. Clients open a new one with each page and
// close none.
func (c *call) makeRoom(ctx context.Context) error {
	var list protocol.ChannelList
	if err := c.node(ctx, protocol.OpChannelList,
		protocol.ChannelsWanted{Session: c.session.ID}, &list); err != nil {
		return err
	}
	var open []string
	for _, ch := range list.Channels {
		if ch.Tag == tagTerminal && ch.State != "exited" {
			open = append(open, ch.ID)
		}
	}
	if len(open) < maxTerminals {
		return nil
	}
	err := c.node(ctx, protocol.OpChannelClose,
		protocol.ChannelRef{Session: c.session.ID, Channel: open[0]}, nil)
	if fault.Is(err, fault.NotFound) {
		return nil // it has ended meanwhile
	}
	return err
}

// listTerminals lists the terminals of the session whose programs run.
func listTerminals(w http.ResponseWriter, r *http.Request, c *call) error {
	all := []terminalBody{}
	if c.session.ID != "" {
		var list protocol.ChannelList
		if err := c.node(r.Context(), protocol.OpChannelList,
			protocol.ChannelsWanted{Session: c.session.ID}, &list); err != nil {
			return err
		}
		for _, ch := range list.Channels {
			if ch.Kind == "terminal" && ch.State != "exited" {
				at := time.UnixMilli(c.session.CreatedMS).UTC().Format(time.RFC3339)
				all = append(all, terminalBody{terminalID(c.session.ID, ch.ID), at, ch.PID})
			}
		}
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

// owned returns the session and the channel of a terminal. Errors: NotFound also for a terminal of
// another user or caller.
func (c *call) owned(ctx context.Context, id string) (session, channel string, err error) {
	session, channel, err = parseTerminal(id)
	if err != nil {
		return "", "", err
	}
	var v protocol.Session
	err = c.node(ctx, protocol.OpSessionGet, protocol.SessionRef{Session: session}, &v)
	if fault.Is(err, fault.NotFound) {
		return "", "", noTerminal()
	}
	if err != nil {
		return "", "", err
	}
	if _, ok := c.placeOf(v); !ok {
		return "", "", noTerminal()
	}
	return session, channel, nil
}

// deleteTerminal ends a terminal.
func deleteTerminal(w http.ResponseWriter, r *http.Request, c *call) error {
	session, channel, err := c.owned(r.Context(), r.PathValue("terminal"))
	if err == nil && !strings.HasPrefix(channel, "t") {
		err = noTerminal()
	}
	if err != nil {
		return err
	}
	if err := c.node(r.Context(), protocol.OpChannelClose,
		protocol.ChannelRef{Session: session, Channel: channel}, nil); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]string{"status": "deleted"})
}
