package warm

import (
	"testing"
	"time"
)

func TestBuildIsRepeatedSoonThenSeldom(t *testing.T) {
	for fails, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second,
		6: 32 * time.Second, 7: retryBuild, 1000: retryBuild,
	} {
		if got := retryDelay(fails); got != want {
			t.Errorf("after %d failures: wanted %v, got %v", fails, want, got)
		}
	}
}
