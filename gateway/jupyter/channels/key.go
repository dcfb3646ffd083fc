package channels

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/protocol"
)

// keyPrefix begins the idempotency keys of cells that Jupyter's clients ask for.
const keyPrefix = "jupyter/"

// keyOf returns the idempotency key of a cell. Any gateway can read the session and the id of the
// request from it, so that the output of the cell finds its request after a gateway has ended. A
// header that is too long for a key has a key that only says that they are the same.
func keyOf(h wire.Header) string {
	id := h.ID
	if rest, ok := strings.CutPrefix(id, h.Session); ok && h.Session != "" {
		id = "/" + rest
	}
	if key := keyPrefix + h.Session + "/" + id; len(key) <= protocol.MaxKey && visible(key) &&
		!strings.Contains(h.Session, "/") && !strings.HasPrefix(h.ID, "/") {
		return key
	}
	sum := sha256.Sum256([]byte(h.Session + "\x00" + h.ID))
	return keyPrefix + "/" + hex.EncodeToString(sum[:])
}

func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// headerOf returns the header of the request of a cell with a key, as far as the key has it. A cell
// that another client has asked for has the key as its id.
func headerOf(key string) wire.Header {
	h := wire.Header{Type: "execute_request", ID: key, Version: wire.Version}
	rest, ok := strings.CutPrefix(key, keyPrefix)
	session, id, found := strings.Cut(rest, "/")
	if !ok || !found || session == "" {
		return h
	}
	if tail, ok := strings.CutPrefix(id, "/"); ok {
		id = session + tail
	}
	h.Session, h.ID = session, id
	return h
}

// parentOf returns the parent of the messages of a cell with a key.
func (c *Conn) parentOf(key string) (parent json.RawMessage, own bool) {
	c.requests.Lock()
	raw, ok := c.asked[key]
	c.requests.Unlock()
	if ok {
		return raw, true
	}
	h := headerOf(key)
	return encode(h), h.Session != "" && h.Session == c.o.Client
}

// inputID returns the id of the message that asks for a line: it names the cell and the number of its
// request, so that every gateway knows what an input_reply answers.
func (c *Conn) inputID(cell, request uint32) string {
	return fmt.Sprintf("%s_input_%d_%d", c.o.ID, cell, request)
}

// answered returns the cell and the request that an input_reply with a parent answers. It is false
// for a reply without a parent, which some gateways remove.
func (c *Conn) answered(parent json.RawMessage) (cell, request uint32, ok bool) {
	var h wire.Header
	_ = json.Unmarshal(parent, &h) // a parent of another form has no id
	numbers, ok := strings.CutPrefix(h.ID, c.o.ID+"_input_")
	if !ok {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(numbers, "%d_%d", &cell, &request)
	return cell, request, err == nil && n == 2
}
