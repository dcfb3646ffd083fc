package pty

import (
	"encoding/json"
	"maps"
)

// savedState is a State as JSON.
type savedState struct {
	Size    Size           `json:"Size"`
	Modes   [2]uint32      `json:"Modes"`
	Saved   [2]uint32      `json:"Saved"`
	Alt     int            `json:"Alt,omitempty"`
	WasAlt  bool           `json:"WasAlt,omitempty"`
	Cursor  [2]savedCursor `json:"Cursor,omitzero"`
	Shape   int            `json:"Shape"`
	Top     int            `json:"Top,omitempty"`
	Bottom  int            `json:"Bottom,omitempty"`
	Keypad  bool           `json:"Keypad,omitempty"`
	Title   string         `json:"Title,omitempty"`
	Colours [3]string      `json:"Colours,omitzero"`
	Palette map[int]string `json:"Palette,omitempty"`
	Keys    [2]savedKeys   `json:"Keys,omitzero"`
	Other   int            `json:"Other,omitempty"`
	Partial []byte         `json:"Partial,omitempty"`
}

type savedCursor struct {
	Flags    uint16      `json:"Flags"`
	Line     uint8       `json:"Line"`
	Over     bool        `json:"Over"`
	Colours  [3][4]uint8 `json:"Colours"` // foreground, background, underline
	Charsets [2]string   `json:"Charsets"`
	Shift    int         `json:"Shift"`
}

type savedKeys struct {
	Flags [8]uint8 `json:"Flags"`
	Depth int      `json:"Depth"`
}

// MarshalJSON implements json.Marshaler.
func (s State) MarshalJSON() ([]byte, error) {
	v := savedState{
		Size: s.Size, Modes: [2]uint32{s.modes.on, s.modes.touched},
		Saved: [2]uint32{s.saved.on, s.saved.touched},
		Alt:   s.alt, WasAlt: s.wasAlt, Shape: s.shape, Top: s.top, Bottom: s.bottom,
		Keypad: s.keypad, Title: s.title,
		Colours: s.colours, Other: s.other, Partial: s.partial,
	}
	for i, c := range s.cursor {
		t := c.style
		v.Cursor[i] = savedCursor{
			Flags: t.flags, Line: t.line, Over: t.over, Charsets: c.charsets,
			Shift: c.shift,
		}
		for j, o := range []colour{t.fg, t.bg, t.ul} {
			v.Cursor[i].Colours[j] = [4]uint8{o.kind, o.r, o.g, o.b}
		}
		v.Keys[i] = savedKeys{s.keys[i].flags, s.keys[i].depth}
	}
	if s.palette != nil {
		v.Palette = s.palette.colours
	}
	return json.Marshal(v)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *State) UnmarshalJSON(b []byte) error {
	var v savedState
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*s = State{
		Size: v.Size, modes: modes{v.Modes[0], v.Modes[1]}, saved: modes{v.Saved[0], v.Saved[1]},
		alt: v.Alt, wasAlt: v.WasAlt, shape: v.Shape, top: v.Top, bottom: v.Bottom,
		keypad: v.Keypad, title: v.Title,
		colours: v.Colours, other: v.Other, partial: v.Partial,
	}
	for i, c := range v.Cursor {
		of := func(j int) colour { o := c.Colours[j]; return colour{o[0], o[1], o[2], o[3]} }
		s.cursor[i] = cursor{
			style: style{
				flags: c.Flags, line: c.Line, over: c.Over, fg: of(0), bg: of(1),
				ul: of(2),
			},
			charsets: c.Charsets, shift: c.Shift,
		}
		s.keys[i] = keys{v.Keys[i].Flags, v.Keys[i].Depth}
	}
	if v.Palette != nil {
		s.palette = &palette{colours: maps.Clone(v.Palette), shared: true}
	}
	return nil
}

type savedPasteFilter struct {
	Open bool   `json:"Open"`
	Tail []byte `json:"Tail,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (f PasteFilter) MarshalJSON() ([]byte, error) {
	return json.Marshal(savedPasteFilter{f.open, f.tail})
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *PasteFilter) UnmarshalJSON(b []byte) error {
	var v savedPasteFilter
	err := json.Unmarshal(b, &v)
	*f = PasteFilter{v.Open, v.Tail}
	return err
}
