package activity

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestCutSlow: a transfer is cut if it has moved too little between two looks, and only then.
func TestCutSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		a := New(time.Now())
		var cut []string
		begin := func(name string) *Transfer {
			return a.Transfer(func(err error) {
				if !errors.Is(err, why) {
					t.Errorf("%s: %v", name, err)
				}
				cut = append(cut, name)
			})
		}
		stalled, slow, fast, ended := begin("stalled"), begin("slow"), begin("fast"), begin("ended")
		stalled.Moved(1000) // before the first look
		a.cutSlow(100, time.Second, why)
		time.Sleep(time.Second / 2)
		a.cutSlow(100, time.Second, why) // another caller, too soon
		if len(cut) > 0 {
			t.Errorf("cut without having been looked at: %v", cut)
		}
		fresh := begin("fresh")
		time.Sleep(time.Second / 2)
		slow.Moved(99)
		fast.Moved(100)
		ended.End()
		a.cutSlow(100, time.Second, why)
		slices.Sort(cut)
		if !slices.Equal(cut, []string{"slow", "stalled"}) {
			t.Errorf("cut: %v", cut)
		}
		for _, x := range []*Transfer{stalled, slow, fast, fresh} {
			x.End()
		}
		if len(a.transfers) > 0 {
			t.Errorf("%d transfers are left", len(a.transfers))
		}
		(*Transfer)(nil).Moved(1)
	})
}
