package wire

// Limits of the agent. A request over one of them fails with Exhausted and is
// counted in Stats.Refused.
const (
	MaxChannels  = 256 // kernels and processes that live at once
	MaxTransfers = 32  // files that are written, read or watched at once
	MaxPending   = 1024
	// MaxLeft is how many processes a cell may leave running. If it leaves more, they are ended.
	MaxLeft = 256
)

// The sizes of frames, in bytes.
const (
	MaxChunk  = 32 << 10  // one output frame made from a pipe
	FileChunk = 64 << 10  // one Data frame of a file
	AckEvery  = 128 << 10 // an Ack is sent after this many bytes
)

// Home is the user's home in every image.
const Home = "/home/user"
