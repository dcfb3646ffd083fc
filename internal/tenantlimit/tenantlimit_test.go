package tenantlimit_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestHardening_NoTenantTakesAll: for each shared thing, a tenant that has its share gets exhausted,
// another tenant still gets one, and what is given back can be taken again.
func TestHardening_NoTenantTakesAll(t *testing.T) {
	for _, row := range tenantlimit.Table() {
		t.Run(string(row.Name), func(t *testing.T) {
			if row.Tenant < 1 || row.Tenant >= row.All || row.Things == "" ||
				tenantlimit.Lookup(row.Name) != row {
				t.Fatalf("one tenant may take all, or the row is not whole: %+v", row)
			}
			s := tenantlimit.New(row)
			var held []func()
			take := func(tenant string) error {
				release, err := s.Reserve("test", tenant)
				if err == nil {
					held = append(held, release)
				}
				return err
			}
			for range row.Tenant {
				if err := take("greedy"); err != nil {
					t.Fatal(err)
				}
			}
			if err := take("greedy"); !fault.Is(err, fault.Exhausted) {
				t.Errorf("beyond its share: %v", err)
			}
			if err := take("other"); err != nil {
				t.Errorf("another tenant: %v", err)
			}
			for i := 0; len(held) < row.All; i++ {
				if err := take("t" + strconv.Itoa(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := take("late"); !fault.Is(err, fault.Exhausted) {
				t.Errorf("beyond all: %v", err)
			}
			for _, release := range held {
				release()
				release() // the second call does nothing
			}
			if n, tenants, refused := s.Counts(); n != 0 || tenants != 0 || refused != 2 {
				t.Errorf("%d are held by %d tenants, %d refused", n, tenants, refused)
			}
			if err := take("greedy"); err != nil {
				t.Errorf("after all were given back: %v", err)
			}
		})
	}
}

// TestHardening_SharesAreDocumented: the page for operators has each row with its numbers.
func TestHardening_SharesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(testenv.Path("docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range tenantlimit.Table() {
		want := "| " + r.Things + " | " + r.Process + " | " + strconv.Itoa(r.Tenant) + " | " +
			strconv.Itoa(r.All) + " |"
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/threat-model.md lacks the line %q", want)
		}
	}
}
