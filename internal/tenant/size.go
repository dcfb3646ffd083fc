package tenant

import "github.com/sandgate/sandgate/protocol/fault"

// MaxTableBytes bounds the JSON of the table. A node sends the whole table to its gateways in one
// frame of at most 8 MiB. A gateway that gets no table accepts no keys.
const MaxTableBytes = 7 << 20

// checkSize refuses a table that is too large. Changes that make a large table smaller are allowed.
func checkSize(b []byte, before Table) error {
	if len(b) <= MaxTableBytes {
		return nil
	}
	old, err := encode(before)
	if err != nil || len(b) <= len(old) {
		return err
	}
	return &fault.Error{
		Kind: fault.Exhausted, Op: "tenant.store", Cause: fault.CauseLimit,
		Message: "the server's table of keys and links is full; end links or revoke keys",
	}
}
