// Package wire encodes and decodes the messages of Jupyter's kernel WebSockets, in both framings:
// v1.kernel.websocket.jupyter.org, and the older JSON form.
package wire

import (
	"encoding/binary"
	"encoding/json"

	"github.com/sandgate/sandgate/protocol/fault"
)

// V1 is the subprotocol of the binary framing.
const V1 = "v1.kernel.websocket.jupyter.org"

// Version is the version of the message protocol.
const Version = "5.3"

// The channels.
const (
	Shell   = "shell"
	Control = "control"
	Stdin   = "stdin"
	IOPub   = "iopub"
)

// maxParts is the largest number of parts of a message: the channel, the JSON parts and buffers.
const maxParts = 1024

// Header is the header of a message.
type Header struct {
	ID       string `json:"msg_id"`
	Type     string `json:"msg_type"`
	Session  string `json:"session"`
	Username string `json:"username"`
	Date     Date   `json:"date"`
	Version  string `json:"version"`
}

// Date is the time of a message, as text. The gateway client of Jupyter Server sends a number, which
// is read as an empty date: no answer depends on it.
type Date string

// UnmarshalJSON reads text, and ignores everything else.
func (d *Date) UnmarshalJSON(b []byte) error {
	var text string
	_ = json.Unmarshal(b, &text) // text stays empty
	*d = Date(text)
	return nil
}

// Message is one message. Each JSON part is a JSON object.
type Message struct {
	Channel string
	// Header is the decoded header, and Raw is its text.
	Header  Header
	Raw     json.RawMessage
	Parent  json.RawMessage
	Meta    json.RawMessage
	Content json.RawMessage
	Buffers [][]byte
}

// legacy is the JSON form of a message.
type legacy struct {
	Channel string          `json:"channel"`
	Header  json.RawMessage `json:"header"`
	Parent  json.RawMessage `json:"parent_header"`
	Meta    json.RawMessage `json:"metadata"`
	Content json.RawMessage `json:"content"`
}

// Decode reads a message of a client. v1 is set if the binary framing was negotiated. The message
// refers to data. Errors: Malformed.
func Decode(data []byte, v1, binary bool) (Message, error) {
	var m Message
	var err error
	switch {
	case v1:
		m, err = decodeV1(data)
	case binary:
		m, err = decodeBuffers(data)
	default:
		m, err = decodeJSON(data)
	}
	if err != nil {
		return m, err
	}
	if json.Unmarshal(m.Raw, &m.Header) != nil || m.Header.ID == "" || m.Header.Type == "" {
		return m, malformed("a message needs a header with msg_id and msg_type")
	}
	for _, part := range []*json.RawMessage{&m.Parent, &m.Meta, &m.Content} {
		if len(*part) == 0 || string(*part) == "null" {
			*part = json.RawMessage("{}")
		}
		if !json.Valid(*part) || (*part)[0] != '{' {
			return m, malformed("a part of a message is not a JSON object")
		}
	}
	switch m.Channel {
	case Shell, Control, Stdin:
		return m, nil
	}
	return m, malformed("a client sends on the channels shell, control and stdin")
}

func malformed(text string) error { return fault.New(fault.Malformed, "jupyter.wire", "%s", text) }

func decodeJSON(data []byte) (Message, error) {
	var l legacy
	if json.Unmarshal(data, &l) != nil {
		return Message{}, malformed("the message is not a JSON object")
	}
	if l.Channel == "" { // old clients send everything to shell
		l.Channel = Shell
	}
	return Message{
		Channel: l.Channel, Raw: l.Header, Parent: l.Parent, Meta: l.Meta, Content: l.Content,
	}, nil
}

// decodeBuffers reads the older form of a message with buffers.
func decodeBuffers(data []byte) (Message, error) {
	if len(data) < 4 {
		return Message{}, malformed("the message is too short")
	}
	n := uint64(binary.BigEndian.Uint32(data))
	parts, err := split(data, n, 4, func(b []byte) uint64 {
		return uint64(binary.BigEndian.Uint32(b))
	}, false)
	if err != nil {
		return Message{}, err
	}
	m, err := decodeJSON(parts[0])
	m.Buffers = parts[1:]
	return m, err
}

func decodeV1(data []byte) (Message, error) {
	if len(data) < 8 {
		return Message{}, malformed("the message is too short")
	}
	n := binary.LittleEndian.Uint64(data)
	parts, err := split(data, n, 8, binary.LittleEndian.Uint64, true)
	if err != nil {
		return Message{}, err
	}
	if len(parts) < 5 {
		return Message{}, malformed("a message has a channel and four JSON parts")
	}
	return Message{
		Channel: string(parts[0]), Raw: parts[1], Parent: parts[2], Meta: parts[3],
		Content: parts[4], Buffers: parts[5:],
	}, nil
}

// split returns the parts between the n offsets that follow a count of width bytes. With closed the
// last offset is the end of the last part.
func split(data []byte, n uint64, width int, read func([]byte) uint64, closed bool,
) ([][]byte, error) {
	if n < 1 || n > maxParts || len(data) < width*(1+int(n)) {
		return nil, malformed("the number of parts is not possible")
	}
	offsets := make([]uint64, 0, n+1)
	for i := range int(n) {
		offsets = append(offsets, read(data[width*(1+i):]))
	}
	if !closed {
		offsets = append(offsets, uint64(len(data)))
	}
	low := uint64(width * (1 + int(n)))
	var parts [][]byte
	for i, at := range offsets {
		if at < low || at > uint64(len(data)) {
			return nil, malformed("an offset of the message is not possible")
		}
		if i > 0 {
			parts = append(parts, data[low:at:at])
		}
		low = at
	}
	if len(parts) == 0 {
		return nil, malformed("the message has no parts")
	}
	return parts, nil
}

// Append appends the encoded message to b and reports whether it is a binary message. Raw is not
// used: the header is encoded.
func Append(b []byte, m *Message, v1 bool) (_ []byte, isBinary bool) {
	head, _ := json.Marshal(m.Header) // strings
	if v1 {
		return appendV1(b, m, head), true
	}
	if len(m.Buffers) == 0 {
		return appendJSON(b, m, head), false
	}
	n := len(m.Buffers) + 1
	start := len(b)
	b = append(b, make([]byte, 4*(n+1))...)
	binary.BigEndian.PutUint32(b[start:], uint32(n))
	put := func(i int) { binary.BigEndian.PutUint32(b[start+4*(i+1):], uint32(len(b)-start)) }
	put(0)
	b = appendJSON(b, m, head)
	for i, part := range m.Buffers {
		put(i + 1)
		b = append(b, part...)
	}
	return b, true
}

func appendV1(b []byte, m *Message, head []byte) []byte {
	n := 6 + len(m.Buffers)
	start := len(b)
	b = append(b, make([]byte, 8*(n+1))...)
	binary.LittleEndian.PutUint64(b[start:], uint64(n))
	at := 0
	put := func() {
		at++
		binary.LittleEndian.PutUint64(b[start+8*at:], uint64(len(b)-start))
	}
	put()
	b = append(b, m.Channel...)
	for _, part := range [][]byte{head, object(m.Parent), object(m.Meta), object(m.Content)} {
		put()
		b = append(b, part...)
	}
	for _, part := range m.Buffers {
		put()
		b = append(b, part...)
	}
	put()
	return b
}

func object(part json.RawMessage) []byte {
	if len(part) == 0 {
		return []byte("{}")
	}
	return part
}

func appendJSON(b []byte, m *Message, head []byte) []byte {
	text := func(name, value string) {
		quoted, _ := json.Marshal(value) // a string
		b = append(append(append(b, name...), quoted...), ',')
	}
	b = append(b, '{')
	text(`"channel":`, m.Channel)
	text(`"msg_id":`, m.Header.ID) // Jupyter's own client in Python needs both here
	text(`"msg_type":`, m.Header.Type)
	part := func(name string, value []byte) {
		b = append(append(b, name...), value...)
	}
	part(`"header":`, head)
	part(`,"parent_header":`, object(m.Parent))
	part(`,"metadata":`, object(m.Meta))
	part(`,"content":`, object(m.Content))
	return append(b, `,"buffers":[]}`...)
}
