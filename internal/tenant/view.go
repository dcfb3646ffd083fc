package tenant

import (
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// Describe returns a key as clients see it.
func Describe(k Key) protocol.Key {
	return protocol.Key{
		ID: k.ID, Name: k.Name, Tenant: k.Tenant, Role: string(k.Role), CreatedBy: k.By,
		Quota:     protocol.Quota(k.Quota),
		CreatedMS: millis(k.Created), ExpiresMS: millis(k.Expires), RotatedMS: millis(k.Rotated),
		PreviousMS: millis(k.Until),
		Expired:    !k.Good(time.Now()),
	}
}

// millis returns a time as clients see it; 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
