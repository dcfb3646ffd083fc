package kernel

import (
	"testing"

	"github.com/sandgate/sandgate/internal/golden"
)

// TestGoldenMessages compares the driver protocol, the kernels' messages, and the manifest.
func TestGoldenMessages(t *testing.T) {
	types := map[string]any{
		"driver request": Request{}, "driver reply": Reply{}, "manifest.json": Manifest{},
		"message": Message{}, "execute_input": ExecuteInput{}, "execute_reply": ExecuteReply{},
		"display_data, update_display_data, execute_result": Bundle{}, "error": Error{},
		"clear_output": ClearOutput{}, "input_request": InputRequest{},
		"kernel_event": KernelEvent{},
		"status":       Status{}, "comm": Comm{},
	}
	// The functions in a request are not sent.
	golden.Records(t, "messages.json", types)
	golden.Covers(t, types)
}
