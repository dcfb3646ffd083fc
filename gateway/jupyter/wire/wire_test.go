package wire

import (
	"encoding/binary"
	"encoding/json"
	"testing"
)

func sample() *Message {
	return &Message{
		Channel: Shell,
		Header: Header{
			ID: "m1", Type: "comm_msg", Session: "s1", Username: "u", Version: Version,
			Date: "2026-01-02T03:04:05.000006Z",
		},
		Parent:  json.RawMessage(`{"msg_id":"p"}`),
		Content: json.RawMessage(`{"text":"grün"}`),
		Buffers: [][]byte{{1, 2, 3}, {}, {4}},
	}
}

// TestRoundTrip encodes and decodes a message in each form.
func TestRoundTrip(t *testing.T) {
	for _, v1 := range []bool{true, false} {
		for _, buffers := range []bool{true, false} {
			m := sample()
			if !buffers {
				m.Buffers = nil
			}
			data, isBinary := Append(nil, m, v1)
			if isBinary != (v1 || buffers) {
				t.Errorf("v1 %v, buffers %v: binary is %v", v1, buffers, isBinary)
			}
			got, err := Decode(data, v1, isBinary)
			if err != nil {
				t.Fatalf("v1 %v, buffers %v: %v", v1, buffers, err)
			}
			if got.Header != m.Header || got.Channel != m.Channel ||
				string(got.Parent) != string(m.Parent) ||
				string(got.Content) != string(m.Content) ||
				len(got.Buffers) != len(m.Buffers) || string(got.Meta) != "{}" {
				t.Errorf("v1 %v, buffers %v: got %+v", v1, buffers, got)
			}
			for i := range got.Buffers {
				if string(got.Buffers[i]) != string(m.Buffers[i]) {
					t.Errorf("buffer %d is %v", i, got.Buffers[i])
				}
			}
		}
	}
}

// TestGatewayClient decodes a message as the gateway client of Jupyter Server sends it: without a
// channel, and with a number as its date.
func TestGatewayClient(t *testing.T) {
	m, err := Decode([]byte(`{"header": {"msg_id": "a_1", "msg_type": "kernel_info_request",
		"username": "u", "session": "a", "date": 1795820062.554344, "version": "5.3"},
		"msg_id": "a_1", "msg_type": "kernel_info_request", "parent_header": {}, "content": {},
		"metadata": {}}`), false, false)
	if err != nil || m.Channel != Shell || m.Header.Type != "kernel_info_request" ||
		m.Header.Date != "" {
		t.Errorf("%+v, %v", m.Header, err)
	}
}

// TestV1Offsets compares the offsets with those of a message of Jupyter's client: they begin after
// the table, and the last is the length.
func TestV1Offsets(t *testing.T) {
	m := sample()
	m.Buffers = nil
	data, _ := Append(nil, m, true)
	n := binary.LittleEndian.Uint64(data)
	first, last := binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data[8*n:])
	if n != 6 || first != 0x38 || last != uint64(len(data)) {
		t.Errorf("n %d, first %#x, last %d of %d", n, first, last, len(data))
	}
}

// TestLegacyTopLevel checks the fields that Python's client reads beside the header.
func TestLegacyTopLevel(t *testing.T) {
	m := sample()
	m.Buffers = nil
	data, _ := Append(nil, m, false)
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got["msg_id"] != "m1" || got["msg_type"] != "comm_msg" || got["channel"] != "shell" {
		t.Errorf("got %v", got)
	}
}

// TestMalformed passes messages that no client sends.
func TestMalformed(t *testing.T) {
	good, _ := Append(nil, sample(), true)
	for i := range good {
		cut := good[:i]
		if _, err := Decode(cut, true, true); err == nil && i < len(good)-4 {
			t.Errorf("the first %d bytes are accepted", i)
		}
	}
	for _, text := range []string{
		"", "[]", "{}", `{"header":{"msg_id":"a"}}`,
		`{"channel":"iopub","header":{"msg_id":"a","msg_type":"b"}}`,
		`{"header":{"msg_id":"a","msg_type":"b"},"content":[]}`,
	} {
		if _, err := Decode([]byte(text), false, false); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// FuzzDecode looks for messages that end the process.
func FuzzDecode(f *testing.F) {
	for _, v1 := range []bool{true, false} {
		data, isBinary := Append(nil, sample(), v1)
		f.Add(data, v1, isBinary)
	}
	f.Fuzz(func(_ *testing.T, data []byte, v1, isBinary bool) {
		m, err := Decode(data, v1, isBinary)
		if err == nil {
			Append(nil, &m, v1)
		}
	})
}
