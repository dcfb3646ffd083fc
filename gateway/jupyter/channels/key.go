package channels

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
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
	r, ok := c.asked[key]
	c.requests.Unlock()
	if ok {
		return r.header, true
	}
	h := headerOf(key)
	return encode(h), h.Session != "" && h.Session == c.o.Client
}

// inputID returns the id of the message that asks for a line: it names the cell, the number of its
// request, and the key of the cell. So every gateway knows what an input_reply answers, also after
// another cell has got the number of one that is lost.
func (c *Conn) inputID(x *cell, request uint32) string {
	return fmt.Sprintf("%s_input_%d_%d_%s", c.o.ID, x.number, request, tagOf(x.key))
}

// tagOf returns a short hash of a key.
func tagOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:4])
}

// answer names the request for input that an input_reply answers. Earlier versions give no tag.
type answer struct {
	cell, request uint32
	tag           string
}

// meets reports whether x can be the cell of the answer.
func (a answer) meets(x *cell) bool {
	return x == nil || x.number != a.cell || a.tag == "" || a.tag == tagOf(x.key)
}

// answered returns what an input_reply with a parent answers. It is false for a reply without a
// parent, which some gateways remove.
func (c *Conn) answered(parent json.RawMessage) (a answer, ok bool) {
	var h wire.Header
	_ = json.Unmarshal(parent, &h) // a parent of another form has no id
	numbers, ok := strings.CutPrefix(h.ID, c.o.ID+"_input_")
	if !ok {
		return a, false
	}
	parts := strings.SplitN(numbers+"__", "_", 4) // a tag may be missing
	x, err := strconv.ParseUint(parts[0], 10, 32)
	n, err2 := strconv.ParseUint(parts[1], 10, 32)
	a = answer{uint32(x), uint32(n), parts[2]}
	return a, err == nil && err2 == nil
}
