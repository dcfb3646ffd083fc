package channel

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
)

// accountEvery is the time between two checks whether holders may write more output to disk.
const accountEvery = time.Second

// account counts the bytes on disk of a holder's logs. It implements stream.Account.
type account struct {
	holder admission.Holder
	logs   int // guarded by Logs.mu
	bytes  atomic.Int64
	full   atomic.Bool
}

// CountDisk implements stream.Account.
func (a *account) CountDisk(bytes int64) { a.bytes.Add(bytes) }

// Full implements stream.Account.
func (a *account) Full() bool { return a.full.Load() }

// account returns the account of a holder for one more log. The caller closes it.
func (x *Logs) account(h admission.Holder) *account {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.accounts[h]
	if a == nil {
		a = &account{holder: h}
		x.accounts[h] = a
	}
	a.logs++
	return a
}

// closeAccount ends the use of an account by one log. A nil account is ignored.
func (x *Logs) closeAccount(a *account) {
	if a == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.uncountLog(a)
}

// uncountLog is closeAccount. Preconditions: mu is held.
func (x *Logs) uncountLog(a *account) {
	if a.logs--; a.logs == 0 && x.accounts[a.holder] == a {
		delete(x.accounts, a.holder)
	}
}

// DiskUse returns the bytes on disk of the logs of a tenant, and the part of a subject.
func (x *Logs) DiskUse(tenant, subject string) (all, own int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for h, a := range x.accounts {
		if h.Tenant != tenant {
			continue
		}
		all += a.bytes.Load()
		if h.Subject == subject {
			own += a.bytes.Load()
		}
	}
	return all, own
}

// LimitDisk stops the logs of holders without disk space from writing to disk, until ctx ends. They
// drop their oldest output then. full reports whether a holder has no more disk space.
func (x *Logs) LimitDisk(ctx context.Context,
	full func(admission.Holder) (quota int64, full bool),
) {
	tick := time.NewTicker(accountEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		x.mu.Lock()
		all := make([]*account, 0, len(x.accounts))
		for _, a := range x.accounts {
			all = append(all, a)
		}
		x.mu.Unlock()
		for _, a := range all {
			_, over := full(a.holder)
			a.full.Store(over)
		}
	}
}
