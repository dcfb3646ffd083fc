package tenant

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestHardening_TableFitsAFrame: many tenants cannot make the table of keys and links so large that
// a node could no longer send it to its gateways. Links of a full table can still be ended.
func TestHardening_TableFitsAFrame(t *testing.T) {
	s, _ := open(t)
	link := Link{Tenant: "other", Session: "s_x", Expires: time.Now().Add(time.Hour)}
	first, err := s.AddLink(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	origins := []string{strings.Repeat("<", maxOriginsLength)} // JSON has six bytes for each
	fill := func(n int) error {
		return s.change(t.Context(), func(t *Table) error {
			for i := range n {
				t.PortLinks = append(t.PortLinks, PortLink{
					ID: fmt.Sprint(len(t.PortLinks), i), Tenant: "t", Session: "s_y", Port: 1,
					Origins: origins, FrameAncestors: origins,
				})
			}
			return nil
		})
	}
	if err := fill(500); err != nil {
		t.Fatal(err)
	}
	if err := fill(200); !fault.Is(err, fault.Exhausted) {
		t.Errorf("a table that fits no frame: %v", err)
	}
	news, _ := s.News(0)
	b, err := json.Marshal(news)
	if err != nil || len(b) > frame.MaxBody-64<<10 || len(b) < MaxTableBytes/2 {
		t.Errorf("the table has %d bytes in a frame of at most %d (%v)", len(b), frame.MaxBody, err)
	}
	if err := s.EndLink(t.Context(), "other", "s_x", first.ID); err != nil {
		t.Errorf("a link cannot be ended: %v", err)
	}
}
