package snapshot

import (
	"errors"

	"github.com/sandgate/sandgate/protocol/fault"
)

// restoreRetry is after how many seconds a restore that failed may be tried again.
const restoreRetry = 5

// Unavailable is the error of a restore that may succeed later. An error about
// volumes, which the user can resolve, and one about a missing edition are returned as they are.
func Unavailable(op, message string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) && known.Kind == fault.Unavailable &&
		(known.Field == "volumes" || known.Field == "edition") {
		return known
	}
	message += ": try again, and if it goes on ask who runs the server, whose log says why"
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, RetryAfter: restoreRetry, Message: message, Err: err,
	}
}

// StartFailed returns the error of a copy whose sandbox could not be restored.
func StartFailed(err error) error {
	const op = "session.start"
	refused := fault.Error{Op: op, Field: "snapshot", Err: err}
	switch refused.Kind = fault.KindOf(err); refused.Kind {
	case fault.Conflict:
		refused.Cause = fault.CauseVersion
		refused.Message = "the snapshot is of another version of the server or its image, and cannot be used any more"
	case fault.NotFound:
		refused.Message = "there is no such snapshot any more"
	case fault.Malformed:
		refused.Kind = fault.Host
		refused.Message = "the snapshot was damaged on the server's disk, and cannot be used any more"
	default:
		return Unavailable(op,
			"the copy could not be started; what it is a copy of is as it was", err)
	}
	return &refused
}
