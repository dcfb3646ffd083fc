package cluster

import (
	"context"
	"errors"
	"maps"
	"testing"
)

// TestEditionsOfNodes: an edition is elsewhere if another node has it and it does not end there.
func TestEditionsOfNodes(t *testing.T) {
	t.Parallel()
	var err error
	e := Editions{Self: "a", Nodes: func(context.Context) ([]Node, error) {
		return []Node{
			{ID: "a", NodeInfo: NodeInfo{Image: "mine", Earlier: []string{"one"}}},
			{ID: "b", NodeInfo: NodeInfo{
				Image: "new", Earlier: []string{"kept", "over"}, Ending: []string{"over"},
			}},
		}, err
	}}
	for edition, want := range map[string]bool{
		"mine": false, "one": false, "new": true, "kept": true, "over": false, "none": false,
	} {
		if got := e.Elsewhere(t.Context(), edition); got != want {
			t.Errorf("%s: %v", edition, got)
		}
	}
	draining := false
	few := Editions{Self: "a", Nodes: func(ctx context.Context) ([]Node, error) {
		all, err := e.Nodes(ctx)
		all[1].Draining = draining
		return all, err
	}}
	for edition, want := range map[string]bool{
		"mine": false, "new": true, "kept": true, "over": false,
	} {
		draining = false
		others, has, err := few.Stays(t.Context(), edition)
		if !others || has != want || err != nil {
			t.Errorf("%s: %v %v %v", edition, others, has, err)
		}
		draining = true
		if others, has, err := few.Stays(t.Context(), edition); others || has || err != nil {
			t.Errorf("%s, when the other node is draining: %v %v %v", edition, others, has, err)
		}
	}
	all, aerr := e.All(t.Context())
	if want := map[string]bool{
		"mine": true, "one": true, "new": true, "kept": true, "over": true,
	}; !maps.Equal(all, want) || aerr != nil {
		t.Errorf("%v %v", all, aerr)
	}
	err = errors.New("away")
	if _, aerr := e.All(t.Context()); e.Elsewhere(t.Context(), "new") || aerr == nil {
		t.Errorf("without the directory: %v", aerr)
	}
	if _, _, serr := e.Stays(t.Context(), "new"); serr == nil {
		t.Error("without the directory nodes are known")
	}
	if others, has, err := (Editions{}).Stays(t.Context(), "new"); others || has || err != nil {
		t.Errorf("a single node: %v %v %v", others, has, err)
	}
	if all, err := (Editions{}).All(t.Context()); len(all) != 0 || err != nil ||
		(Editions{}).Elsewhere(t.Context(), "new") {
		t.Errorf("a single node: %v %v", all, err)
	}
}
