package protocol

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// Limits of labels and lists.
const (
	MaxLabels     = 32   // labels of a session
	MaxLabelKey   = 64   // bytes of a label's key
	MaxLabelValue = 256  // bytes of a label's value
	MaxList       = 1000 // sessions in one list
	DefaultList   = 100  // sessions in a list whose request has no limit
)

// ReservedLabels begins the keys of labels that only the server sets.
const ReservedLabels = "sandgate."

// LabelRun marks a session that a run has created for itself. The value is the id of the run token;
// "-" means that the run had none.
const LabelRun = ReservedLabels + "run"

// SessionName names a session by its name.
type SessionName struct {
	Name string `json:"name"`
}

// Ensured is a session that has the name of a request.
type Ensured struct {
	Session
	// Created is true if the request created the session.
	Created bool `json:"created,omitempty"`
}

// HTTPStatus returns the status of the response to a request over HTTP.
func (e Ensured) HTTPStatus() int {
	if e.Created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// The orders of a list of sessions.
const (
	OrderCreated = "created"
	OrderActive  = "active"
	OrderName    = "name"
)

// SessionQuery selects sessions. A field that is empty selects all.
type SessionQuery struct {
	// Name is the name of one session.
	Name string `json:"name,omitempty"`
	// Labels are labels that the sessions have: key:value, or a key with any value. The parameter of
	// an URL is label, which can be repeated.
	Labels   []string `json:"labels,omitempty" query:"label"`
	State    string   `json:"state,omitempty"`
	Template string   `json:"template,omitempty"`
	// Order is created, active or name, in ascending order. Without it the newest session is the
	// first.
	Order      string `json:"order,omitempty"`
	Descending bool   `json:"descending,omitempty"`
	// Limit is the largest number of sessions in the reply, up to MaxList; 0 means DefaultList.
	Limit int `json:"limit,omitempty"`
	// Cursor is next_cursor of an earlier reply. The list continues there.
	Cursor string `json:"cursor,omitempty"`
	// Fields are the fields of Session that the reply has, separated by commas; empty means all.
	Fields string `json:"fields,omitempty"`
}

// SessionList is a page of the caller's sessions.
type SessionList struct {
	Sessions []Session `json:"sessions"`
	// NextCursor is the cursor of the next page; empty on the last one.
	NextCursor string `json:"next_cursor,omitempty"`
	// Fields are the fields that each session of this list has; empty means all.
	Fields []string `json:"fields,omitempty"`
	// Missing are nodes whose entries may be missing: they have gone without leaving the cluster, or
	// could not be reached for a lease. Other lists have the same field.
	Missing []string `json:"missing,omitempty"`
}

// SessionFields returns the names of the fields of a Session in JSON.
func SessionFields() []string {
	var all []string
	t := reflect.TypeFor[Session]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		all = append(all, name)
	}
	return all
}

// MarshalJSON leaves out the fields that were not asked for. If a Session has not all fields of
// Fields, it leaves out nothing.
func (l SessionList) MarshalJSON() ([]byte, error) {
	type plain SessionList // without this method
	known := SessionFields()
	other := func(name string) bool { return !slices.Contains(known, name) }
	text, err := json.Marshal(plain(l))
	if err != nil || len(l.Fields) == 0 || slices.ContainsFunc(l.Fields, other) {
		return text, err
	}
	var page struct {
		Sessions   []map[string]json.RawMessage `json:"sessions"`
		NextCursor string                       `json:"next_cursor,omitempty"`
		Fields     []string                     `json:"fields"`
		Missing    []string                     `json:"missing,omitempty"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, err
	}
	for _, s := range page.Sessions {
		maps.DeleteFunc(s, func(name string, _ json.RawMessage) bool {
			return !slices.Contains(l.Fields, name)
		})
	}
	return json.Marshal(page)
}
