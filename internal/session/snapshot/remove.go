package snapshot

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// ResumedSuffix ends the name of the folder of a resumed session that is being removed.
const ResumedSuffix = ".woken"

// removeDelay is how long the folder of a resumed session is left on disk: its removal takes 3 ms
// of a processor, which the first cell needs.
const removeDelay = 300 * time.Millisecond

// RemoveLater removes the folder of a resumed session in the background, so that no request waits
// for the disk. run runs a function in a goroutine. The end of ctx ends the delay.
func RemoveLater(ctx context.Context, dir string, run func(func()), log *slog.Logger) {
	remove := func(dir string) {
		if err := os.RemoveAll(dir); err != nil {
			log.Warn("a snapshot was not removed", "folder", dir, "error", err)
		}
	}
	if err := os.Rename(dir, dir+ResumedSuffix); err != nil {
		remove(dir) // the folder of an earlier resume is still being removed
		return
	}
	run(func() {
		timer := time.NewTimer(removeDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		remove(dir + ResumedSuffix)
	})
}
