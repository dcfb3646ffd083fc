package agent

import (
	"strconv"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/golden"
)

// TestGoldenWire compares the messages between a node and the agent in a
// sandbox, by the operation or event that has them. An agent in a snapshot is
// as old as the snapshot.
func TestGoldenWire(t *testing.T) {
	types := map[string]any{
		"request": wire.Request{}, "response": wire.Response{},
		"kernel.start params": wire.StartKernel{}, "process.start params": wire.StartProcess{}, "process.start result": wire.Started{},
		"terminal.start params": wire.StartTerminal{}, "resize params": wire.Resize{}, "running result": wire.Running{}, "signal params": wire.Signal{},
		"file.write params": wire.FileWrite{}, "file.read params": wire.FileRead{}, "file.read result": wire.FileOpened{},
		"file.list params": wire.FileList{}, "file.list result": wire.FileListing{}, "file.move params": wire.FileMove{},
		"file.remove params": wire.FileRemove{}, "file.link params": wire.FileLink{}, "file.watch params": wire.FileWatch{},
		"file.watch data": wire.FileChanges{}, "tree.read params": wire.TreeRead{}, "tree.write result": wire.TreeStat{},
		"reseed params": wire.Reseed{}, "stats result": wire.Stats{}, "outbound params": wire.EgressAnswer{},
		"port.dial params": wire.PortDial{}, "port.list result": wire.Ports{},
		"process.list result": wire.Processes{}, "process.signal params": wire.SignalProcess{},
		"any file operation's params": fileParams{},
	}
	golden.Records(t, "wire.json", types)
	golden.Covers(t, types, "Saved", "SavedFlow")
	golden.Records(t, "saved.json", map[string]any{"a client that is stored": client.Saved{}})
	golden.Text(t, "operations.txt", golden.Constants(t, "Op", "Reason"))
	golden.Lines(t, "version.txt", map[string]string{
		"version": strconv.Itoa(wire.Version), "window": strconv.Itoa(wire.Window), "abort flag": strconv.Itoa(int(wire.FlagAbort)),
	})
}
