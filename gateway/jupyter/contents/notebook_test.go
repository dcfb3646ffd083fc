package contents

import (
	"encoding/json"
	"testing"
)

// TestNotebooks: a notebook is the same after it was written and read, and its file has lines.
func TestNotebooks(t *testing.T) {
	const in = `{"cells":[{"attachments":{"a.png":{"image/png":"eA=="}},"cell_type":"code",` +
		`"metadata":{"trusted":false,"x":1},"outputs":[{"data":{"application/json":["a"],` +
		`"application/vnd.x+json":"a\nb","text/html":"<b>\n&"},"output_type":"display_data"},` +
		`{"output_type":"stream","text":"x\n"}],"source":"a\r\nb\u2028c\n\nd"},{"source":""}],` +
		`"metadata":{"orig_nbformat":3,"signature":"s"},"nbformat":4,"nbformat_minor":1.0}`
	file, err := encodeNotebook(json.RawMessage(in))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "cells": [
  {
   "attachments": {
    "a.png": {
     "image/png": [
      "eA=="
     ]
    }
   },
   "cell_type": "code",
   "metadata": {
    "x": 1
   },
   "outputs": [
    {
     "data": {
      "application/json": [
       "a"
      ],
      "application/vnd.x+json": "a\nb",
      "text/html": [
       "<b>\n",
       "&"
      ]
     },
     "output_type": "display_data"
    },
    {
     "output_type": "stream",
     "text": [
      "x\n"
     ]
    }
   ],
   "source": [
    "a\r\n",
    "b\u2028c\n",
    "\n",
    "d"
   ]
  },
  {
   "source": []
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 1.0
}
`
	if string(file) != want {
		t.Errorf("the file is %s", file)
	}
	doc, err := decodeNotebook(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	second, err := encodeNotebook(again)
	if err != nil || string(second) != want {
		t.Errorf("written again the file is %s, %v", second, err)
	}
}

// TestBadNotebooks: a file that is not a notebook of format 4 is neither read nor written.
func TestBadNotebooks(t *testing.T) {
	for _, text := range []string{
		"", "null", "[]", "{}", `{"cells": [], "nbformat": 3}`, `{"cells": {}, "nbformat": 4}`,
		`{"cells": [], "nbformat": "4"}`, `{"cells": [], "nbformat": 4.5}`,
	} {
		if _, err := decodeNotebook([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
		if _, err := encodeNotebook(json.RawMessage(text)); err == nil {
			t.Errorf("%s is written", text)
		}
	}
	if _, err := decodeNotebook([]byte(`{"cells": [], "nbformat": 4} x`)); err == nil {
		t.Error("text after the notebook is accepted")
	}
}

// TestValid: only visible files below the home folder have paths.
func TestValid(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "a": true, "a/b c.txt": true, "ä/..x": false, ".a": false, "a/.b/c": false,
		"..": false, "a/../b": false, "a//b": false, "/a": false, "a/": false, "a\x00": false,
		"\xff": false, "a..b": true,
	} {
		if Valid(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}
