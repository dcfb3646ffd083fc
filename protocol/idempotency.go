package protocol

import "github.com/sandgate/sandgate/protocol/fault"

// The headers of idempotency keys.
const (
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderReplayed is the header of a response, with the value true, that is the reply to an
	// earlier request with the same key.
	HeaderReplayed = "Idempotency-Replayed"
)

// The operations with which gateways keep the replies of their own operations on a node.
const (
	OpRepeatBegin = "repeat.begin"
	OpRepeatEnd   = "repeat.end"
)

// CheckIdempotencyKey returns an error unless a key has 1 to MaxKey visible ASCII characters. field
// is the name that the client has used for the key.
func CheckIdempotencyKey(op, field, key string) error {
	valid := key != "" && len(key) <= MaxKey
	for i := 0; valid && i < len(key); i++ {
		valid = key[i] > ' ' && key[i] < 0x7f
	}
	if !valid {
		return fault.Invalid(op, field, "a key has 1 to %d visible ASCII characters", MaxKey)
	}
	return nil
}

// RepeatBegin asks for the right to perform an operation once. The caller holds the right with the
// number ch until it sends RepeatEnd with that number.
type RepeatBegin struct {
	// Operation is the operation of the gateway.
	Operation string `json:"operation"`
	Key       string `json:"key"`
	// Hash is the hash of the parameters.
	Hash []byte `json:"hash"`
	// Session is the session of the request; empty for none.
	Session string `json:"session,omitempty"`
	// Secret is true if the reply contains a secret. It is not written to disk then.
	Secret bool `json:"secret,omitempty"`
	// Turn is true for a turn in the use of the session: nothing is kept.
	Turn bool `json:"turn,omitempty"`
}

// RepeatBegun answers RepeatBegin. Either Response is the response to the first request, or the
// caller performs the operation.
type RepeatBegun struct {
	Response *RepeatResponse `json:"response,omitempty"`
	// Seed names the things that the operation creates. A later attempt at the operation has the
	// same seed.
	Seed string `json:"seed,omitempty"`
	// Again is true if an earlier attempt was interrupted, and may have done the work.
	Again bool `json:"again,omitempty"`
	// Note is the note of the turn before this one, if the session still is on the node.
	Note string `json:"note,omitempty"`
}

// RepeatResponse is an HTTP response.
type RepeatResponse struct {
	Status int    `json:"status"`
	Type   string `json:"type"`
	Body   []byte `json:"body"`
}

// RepeatEnd ends an operation. Without a response, the operation has failed.
type RepeatEnd struct {
	Response *RepeatResponse `json:"response,omitempty"`
	// TooLarge is true if the response is too large to be kept.
	TooLarge bool `json:"too_large,omitempty"`
	// Failed is true if the operation did nothing. A repeat performs it then.
	Failed bool `json:"failed,omitempty"`
	// Again is true if a repeat may perform the operation although this attempt has begun it. If
	// neither Failed nor Again is true, a repeat is refused.
	Again bool `json:"again,omitempty"`
	// Note is for the next turn, if this one has failed. A note of over 256 bytes is not kept.
	Note string `json:"note,omitempty"`
}

// repeatOperations are only for gateways.
func repeatOperations() []Operation {
	return []Operation{
		// The reply comes when no other request with the key is in progress.
		{
			Name: OpRepeatBegin, Summary: "Ask whether a request with a key is the first one",
			Params: RepeatBegin{}, Result: RepeatBegun{}, Scope: ScopeNode, Transport: Internal,
			Channel: ChoosesChannel, Order: Inline, Target: PlacedNode, Effects: Writes,
			Unaudited: true, Limit: TransferLimit,
		},
		{
			Name: OpRepeatEnd, Summary: "Keep the reply to the first request with a key",
			Params: RepeatEnd{}, Scope: ScopeNode, Transport: Internal,
			Channel: NamesChannel, Order: Inline, Target: SessionNode, Effects: Writes,
			Unaudited: true,
		},
	}
}
