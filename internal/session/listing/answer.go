package listing

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// Left is a session that has left a node: it was handed over to the blob store, from which another
// node may have fetched it since.
type Left struct {
	Session protocol.Session `json:"session"`
	// AgoMS is how long ago that was when the node answered.
	AgoMS int64 `json:"ago_ms"`
}

// Answer is a node's answer to a request for a list. A session that moves from one node to another
// while a gateway asks all nodes may be in no list. The first node then has it in Left.
type Answer struct {
	protocol.SessionList
	Left []Left
}

// PageOfLeft returns those of the sessions that belong to the page of the request.
func (q Query) PageOfLeft(all []Left) []Left {
	var views []protocol.Session
	ago := map[string]int64{}
	for _, l := range all {
		views = append(views, l.Session)
		ago[l.Session.ID] = l.AgoMS
	}
	var page []Left
	for _, s := range q.Page(views, false).Sessions {
		page = append(page, Left{s, ago[s.ID]})
	}
	return page
}

// Since returns the sessions that have left the node within a time.
func (a Answer) Since(d time.Duration) (all []protocol.Session) {
	for _, l := range a.Left {
		if time.Duration(l.AgoMS)*time.Millisecond <= d {
			all = append(all, l.Session)
		}
	}
	return all
}

// MarshalJSON returns the JSON of the list, with Left if there is any.
func (a Answer) MarshalJSON() ([]byte, error) {
	list, err := json.Marshal(a.SessionList)
	if err != nil || len(a.Left) == 0 {
		return list, err
	}
	left, err := json.Marshal(a.Left)
	list = bytes.TrimSuffix(list, []byte("}")) // it always has sessions
	return append(append(append(list, `,"left":`...), left...), '}'), err
}

// UnmarshalJSON reads the JSON of MarshalJSON.
func (a *Answer) UnmarshalJSON(data []byte) error {
	var more struct {
		Left []Left `json:"left"`
	}
	if err := json.Unmarshal(data, &a.SessionList); err != nil {
		return err
	}
	err := json.Unmarshal(data, &more)
	a.Left = more.Left
	return err
}
