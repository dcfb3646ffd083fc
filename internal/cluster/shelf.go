package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sandgate/sandgate/fault"
)

// maxShelf is how many bytes a thing on the shelf has at most.
const maxShelf = 16 << 10

// Shelf holds small things of the cluster's gateways on its Redis server, each
// for its own short time and to be taken once.
type Shelf struct{ r *Redis }

// Shelf returns the cluster's.
func (r *Redis) Shelf() Shelf { return Shelf{r} }

func (s Shelf) key(name string) string { return s.r.prefix + "once:" + name }

// Put lays something down under a name that nothing else has.
func (s Shelf) Put(ctx context.Context, name string, thing []byte, life time.Duration) error {
	const op = "cluster.shelf"
	if len(thing) > maxShelf {
		return fault.New(fault.TooLarge, op, "it has %d bytes, the limit is %d", len(thing), maxShelf)
	}
	ctx, cancel := context.WithTimeout(ctx, s.r.timeout)
	defer cancel()
	return away(op, s.r.client.Set(ctx, s.key(name), thing, life).Err())
}

// Take takes what lies under the name; of all who try one gets it. nil is
// nothing.
func (s Shelf) Take(ctx context.Context, name string) ([]byte, error) {
	const op = "cluster.shelf"
	ctx, cancel := context.WithTimeout(ctx, s.r.timeout)
	defer cancel()
	b, err := s.r.client.GetDel(ctx, s.key(name)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return b, away(op, err)
}
