package stream

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// TestLogsShareAFolder: a log can be created while the folder of all logs is removed, because the last
// log in it has ended.
func TestLogsShareAFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "session")
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = os.Remove(dir) // it fails while a log is there
				runtime.Gosched()
			}
		}
	})
	for n := range 1000 {
		l, err := NewLog(LogOptions{Dir: filepath.Join(dir, fmt.Sprint("t", n))})
		if err != nil {
			t.Errorf("log %d: %v", n, err)
			break
		}
		if err := l.Close(); err != nil {
			t.Errorf("closing log %d: %v", n, err)
			break
		}
	}
	close(done)
	work.Wait()
}
