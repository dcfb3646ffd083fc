package wire

import (
	"strconv"
	"testing"

	"github.com/sandgate/sandgate/protocol/golden"
)

// TestGoldenWire compares the messages between a node and the agent in a
// sandbox, by the operation or event that has them.
func TestGoldenWire(t *testing.T) {
	types := map[string]any{
		"request": Request{}, "response": Response{},
		"kernel.start params": StartKernel{}, "process.start params": StartProcess{},
		"process.start result":  Started{},
		"terminal.start params": StartTerminal{}, "resize params": Resize{},
		"running result": Running{}, "signal params": Signal{},
		"file.stat params":  FileDescribe{},
		"file.write params": FileWrite{}, "file.read params": FileRead{},
		"file.read result": FileOpened{},
		"file.list params": FileList{}, "file.list result": FileListing{},
		"file.move params":   FileMove{},
		"file.remove params": FileRemove{}, "file.link params": FileLink{},
		"file.watch params":   FileWatch{},
		"file.changes params": ChangesSince{}, "file.changes result": ChangedFiles{},
		"file.watch data": FileChanges{}, "tree.read params": TreeRead{},
		"tree.write params": TreeWrite{}, "tree.write result": TreeStat{},
		"reseed params": Reseed{}, "stats result": Stats{}, "outbound params": EgressAnswer{},
		"port.dial params": PortDial{}, "port.list result": Ports{},
		"process.list result": Processes{}, "process.signal params": SignalProcess{},
	}
	golden.Records(t, "wire.json", types)
	golden.Covers(t, types)
	golden.Text(t, "operations.txt", golden.Constants(t, "Op", "Reason"))
	golden.Lines(t, "version.txt", map[string]string{
		"version": strconv.Itoa(Version), "revision": strconv.Itoa(Revision),
		"window":     strconv.Itoa(Window),
		"abort flag": strconv.Itoa(int(FlagAbort)),
	})
}
