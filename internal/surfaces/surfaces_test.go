package surfaces

import (
	"slices"
	"testing"
)

// TestTable checks that each surface has a default only for a setting that it has.
func TestTable(t *testing.T) {
	if !slices.IsSorted(Names()) || len(Names()) != 9 {
		t.Errorf("the surfaces are %v", Names())
	}
	for _, name := range Names() {
		d := Defaults(name)
		for setting, set := range map[string]bool{
			"template": d.Template != "", "idle_delete": d.IdleDelete != 0,
			"timeout": d.Timeout != 0, "max_sessions": d.MaxSessions != 0,
			"user_header": d.UserHeader != "", "conversation_header": d.ConversationHeader != "",
		} {
			if set && !Has(name, setting) {
				t.Errorf("%s has a default of %s, which it does not have", name, setting)
			}
		}
		if !Has(name, "network") || Has(name, "colour") {
			t.Errorf("the settings of %s are wrong", name)
		}
	}
	if Has("none", "network") {
		t.Error("a surface that does not exist has settings")
	}
}
