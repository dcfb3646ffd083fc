package wire

// The signals that SendSignal takes.
const (
	SignalKill = "SIGNAL_SIGKILL"
	SignalTerm = "SIGNAL_SIGTERM"
)

// Size is the size of a terminal.
type Size struct{ Cols, Rows uint32 }

// PTY asks for a terminal.
type PTY struct{ Size *Size }

// ProcessConfig is a command with its environment.
type ProcessConfig struct {
	Cmd  string
	Args []string
	Envs map[string]string
	Cwd  *string
}

// Selector names a process by its number or its tag. At most one field is set.
type Selector struct {
	PID *uint32
	Tag *string
}

// Input is input for a process or a terminal. At most one field is not nil.
type Input struct{ Stdin, PTY []byte }

// ProcessInfo is a process of a list.
type ProcessInfo struct {
	Config *ProcessConfig
	PID    uint32
	Tag    *string
}

// ProcessEvent is one event of a process. One field is set.
type ProcessEvent struct {
	Start     *ProcessStarted
	Data      *ProcessData
	End       *ProcessEnd
	KeepAlive *KeepAlive
}

// ProcessStarted is the first event of a process.
type ProcessStarted struct{ PID uint32 }

// ProcessData is output of a process. One field is not nil.
type ProcessData struct{ Stdout, Stderr, PTY []byte }

// ProcessEnd is the last event of a process.
type ProcessEnd struct {
	// ExitCode is -1 if a signal ended the process.
	ExitCode int32
	// Exited is false if a signal ended the process.
	Exited bool
	Status string
	// Error is set unless the exit code is 0.
	Error *string
}

// KeepAlive is an event without a meaning.
type KeepAlive struct{}

// StartRequest starts a process, or a terminal if PTY is set.
type StartRequest struct {
	Process *ProcessConfig
	PTY     *PTY
	Tag     *string
	// Stdin is false for a process without input; nil means true.
	Stdin *bool
}

// StartResponse has an event of a process.
type StartResponse struct{ Event *ProcessEvent }

// ConnectRequest follows a process.
type ConnectRequest struct{ Process *Selector }

// ConnectResponse has an event of a process.
type ConnectResponse struct{ Event *ProcessEvent }

// ListRequest lists the processes that run.
type ListRequest struct{}

// ListResponse has the processes that run.
type ListResponse struct{ Processes []*ProcessInfo }

// SendInputRequest sends input to a process.
type SendInputRequest struct {
	Process *Selector
	Input   *Input
}

// SendInputResponse is empty.
type SendInputResponse struct{}

// StreamInputRequest is one message of a stream of input. One field is set. The first message has
// Start.
type StreamInputRequest struct {
	Start     *InputStart
	Data      *InputData
	KeepAlive *KeepAlive
}

// InputStart names the process of a stream of input.
type InputStart struct{ Process *Selector }

// InputData is input in a stream.
type InputData struct{ Input *Input }

// StreamInputResponse is empty.
type StreamInputResponse struct{}

// CloseStdinRequest ends the input of a process.
type CloseStdinRequest struct{ Process *Selector }

// CloseStdinResponse is empty.
type CloseStdinResponse struct{}

// SendSignalRequest sends a signal to a process.
type SendSignalRequest struct {
	Process *Selector
	Signal  string
}

// SendSignalResponse is empty.
type SendSignalResponse struct{}

// UpdateRequest changes the size of a terminal.
type UpdateRequest struct {
	Process *Selector
	PTY     *PTY
}

// UpdateResponse is empty.
type UpdateResponse struct{}
