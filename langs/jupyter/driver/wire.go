package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// delimiter separates the addresses of a Jupyter message from its parts.
const delimiter = "<IDS|MSG>"

// header is the header of a Jupyter message.
type header struct {
	ID       string `json:"msg_id"`
	Type     string `json:"msg_type"`
	Session  string `json:"session"`
	Username string `json:"username"`
	Date     string `json:"date"`
	Version  string `json:"version"`
}

// packet is a Jupyter message.
type packet struct {
	header  header
	parent  header
	rawHead json.RawMessage // the header as it was received
	meta    json.RawMessage
	content json.RawMessage
	buffers [][]byte
}

// signer signs and checks the messages of one kernel.
type signer struct {
	key     []byte
	session string
	sent    int
}

func (s *signer) sign(parts [][]byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	for _, p := range parts {
		mac.Write(p)
	}
	return []byte(hex.EncodeToString(mac.Sum(nil)))
}

// newID returns the id of a message whose output belongs to a cell.
func (s *signer) newID(cell uint32) string {
	s.sent++
	return s.session + "_" + strconv.FormatUint(uint64(cell), 10) + "_" + strconv.Itoa(s.sent)
}

// cellOf returns the cell of a message that newID named, or 0.
func (s *signer) cellOf(id string) uint32 {
	rest, ours := strings.CutPrefix(id, s.session+"_")
	number, _, _ := strings.Cut(rest, "_")
	cell, err := strconv.ParseUint(number, 10, 32)
	if !ours || err != nil {
		return 0
	}
	return uint32(cell)
}

// encode returns the frames of a message. parent and meta may be nil.
func (s *signer) encode(id, kind string, parent, meta json.RawMessage, content any,
	buffers [][]byte,
) ([]byte, error) {
	head, err := json.Marshal(header{
		ID: id, Type: kind, Session: s.session, Username: "user",
		Date: time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), Version: "5.3",
	})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	parts := [][]byte{head, orEmpty(parent), orEmpty(meta), body}
	all := append([][]byte{[]byte(delimiter), s.sign(parts)}, parts...)
	return encodeParts(append(all, buffers...)), nil
}

func orEmpty(raw json.RawMessage) []byte {
	if len(raw) == 0 || string(raw) == "null" {
		return []byte("{}")
	}
	return raw
}

// decode checks the signature of a message and returns the message.
func (s *signer) decode(frames [][]byte) (packet, error) {
	var p packet
	for len(frames) > 0 && string(frames[0]) != delimiter {
		frames = frames[1:]
	}
	if len(frames) < 6 {
		return p, errors.New("a message has too few parts")
	}
	parts := frames[2:6]
	if !hmac.Equal(bytes.ToLower(frames[1]), s.sign(parts)) {
		return p, errors.New("a message has a wrong signature")
	}
	if err := json.Unmarshal(parts[0], &p.header); err != nil {
		return p, err
	}
	_ = json.Unmarshal(parts[1], &p.parent) // a message without a request has an empty parent
	p.rawHead, p.meta, p.content, p.buffers = parts[0], parts[2], parts[3], frames[6:]
	return p, nil
}
