package cluster

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// settle is how long a vault that has just begun takes no changes: each node
// that knows more than it has looks every second.
const settle = 3 * time.Second

//go:embed lua/vault_load.lua
var luaVaultLoad string

//go:embed lua/vault_replace.lua
var luaVaultReplace string

//go:embed lua/vault_restore.lua
var luaVaultRestore string

// Vault is one table of the cluster on its Redis server: bytes with a version.
// It has no time to live.
type Vault struct{ r *Redis }

// Vault returns the cluster's.
func (r *Redis) Vault() Vault { return Vault{r} }

func (v Vault) key() string { return v.r.prefix + "keys" }

func version(n uint64) string { return strconv.FormatUint(n, 10) }

// Load returns the version that is there, 0 for none, and its bytes unless it
// is the one that the caller has.
func (v Vault) Load(ctx context.Context, have uint64) (is uint64, data []byte, err error) {
	const op = "cluster.vault"
	out, err := v.r.run(ctx, op, v.r.vaultLoad, []string{v.key()}, version(have))
	if err != nil {
		return 0, nil, err
	}
	if is, err = strconv.ParseUint(out[0], 10, 64); err != nil {
		return 0, nil, fault.New(fault.Internal, op, "the vault has a version that is no number")
	}
	if len(out) > 1 {
		data = []byte(out[1])
	}
	return is, data, nil
}

// Replace puts bytes in the place of the version was.
func (v Vault) Replace(ctx context.Context, was, is uint64, data []byte) error {
	const op = "cluster.vault"
	out, err := v.r.run(ctx, op, v.r.vaultReplace, []string{v.key()}, version(was), version(is), data, settle.Microseconds(), v.r.vaultChannel())
	switch {
	case err != nil:
		return err
	case out[0] == "other":
		return fault.New(fault.Conflict, op, "another version is there")
	case out[0] == "young":
		return &fault.Error{Kind: fault.Restarting, Op: op, RetryAfter: int(settle / time.Second), Message: "the vault was started anew, and may not have all yet"}
	}
	return nil
}

// Restore puts bytes where there are none or older ones.
func (v Vault) Restore(ctx context.Context, is uint64, data []byte) error {
	_, err := v.r.run(ctx, "cluster.vault", v.r.vaultRestore, []string{v.key()}, version(is), data, v.r.vaultChannel())
	return err
}

func (r *Redis) vaultChannel() string { return r.prefix + "keys" }

// Watch tells, until ctx ends, that another version may be there.
func (v Vault) Watch(ctx context.Context) <-chan struct{} {
	events := v.r.vaultEvents.join(ctx)
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		for range events {
			select {
			case out <- struct{}{}:
			default: // one waits, which stands for this one too
			}
		}
	}()
	return out
}
