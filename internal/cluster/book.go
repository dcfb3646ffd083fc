package cluster

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/tenant"
)

// maxFrames is how many run tickets are looked through for the origins of frames.
const maxFrames = 10_000

// Book keeps the run tickets of the cluster's gateways on its Redis server, and
// counts their uses: each step is one script. All its keys have a time to live.
type Book struct{ r *Redis }

// Book returns the cluster's.
func (r *Redis) Book() Book { return Book{r} }

//go:embed lua/run_*.lua
var luaRun embed.FS

// bookScripts are those of a Book.
type bookScripts struct{ add, find, end, begin, leave, origins *redis.Script }

func newBookScripts(script func(flags, body string) *redis.Script) (s bookScripts) {
	body := func(name string) string {
		b, _ := luaRun.ReadFile("lua/run_" + name + ".lua") // they are embedded
		return string(b)
	}
	common := body("common")
	s.add, s.begin = script("", common+body("add")), script("", common+body("begin"))
	// What ends something must go through when memory is full.
	s.end, s.leave = script("allow-oom", common+body("end")), script("allow-oom", common+body("leave"))
	s.find, s.origins = script("no-writes", body("find")), script("no-writes", body("origins"))
	return s
}

// keys are those that a ticket's scripts touch. An origin may be of any length
// and holds what a key should not.
func (b Book) keys(id, origin string) []string {
	p := b.r.prefix + "run:"
	return []string{p + "ticket:" + id, p + "places:" + id, p + "out", b.ofOrigin(origin), b.frames()}
}

func (b Book) frames() string { return b.r.prefix + "run:frames" }

func (b Book) ofOrigin(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return b.r.prefix + "run:origin:" + hex.EncodeToString(sum[:16])
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// Add lays a ticket down, unless as many as most are out: then it is Exhausted.
func (b Book) Add(ctx context.Context, g tenant.Grant, most int) error {
	const op = "cluster.book"
	if len(g.Thing) > maxShelf {
		return fault.New(fault.TooLarge, op, "it has %d bytes, the limit is %d", len(g.Thing), maxShelf)
	}
	out, err := b.r.run(ctx, op, b.r.book.add, b.keys(g.ID, g.Origin),
		g.ID, g.Thing, g.Uses, g.AtOnce, g.PerMinute, g.Life.Milliseconds(), most, g.Origin, flag(g.Embed))
	if err == nil && out[0] == "full" {
		err = fault.New(fault.Exhausted, op, "%d run tickets are out", most)
	}
	return err
}

// Find returns the thing of a ticket that is good, or has a run that goes on; nil
// is none.
func (b Book) Find(ctx context.Context, id string) ([]byte, error) {
	out, err := b.r.run(ctx, "cluster.book", b.r.book.find, b.keys(id, "")[:2])
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return []byte(out[0]), nil
}

// End ends a ticket, and reports whether it was there.
func (b Book) End(ctx context.Context, id, origin string) (bool, error) {
	out, err := b.r.run(ctx, "cluster.book", b.r.book.end, b.keys(id, origin), id, origin)
	return err == nil && out[0] == "ok", err
}

// Begin uses a ticket once and holds a place among its runs, for life unless it
// is left before. Of all gateways that try the last use one gets it. With Busy
// and Fast comes after how long it may be tried again.
func (b Book) Begin(ctx context.Context, id, origin, place string, life time.Duration) (tenant.Verdict, time.Duration, error) {
	const op = "cluster.book"
	out, err := b.r.run(ctx, op, b.r.book.begin, b.keys(id, origin), id, origin, place, life.Milliseconds())
	if err != nil {
		return "", 0, err
	}
	wait, err := strconv.Atoi(out[1])
	if err != nil {
		return "", 0, fault.Wrap(fault.Internal, op, err)
	}
	return tenant.Verdict(out[0]), time.Duration(wait) * time.Second, nil
}

// Leave gives a place back.
func (b Book) Leave(ctx context.Context, id, origin, place string) error {
	_, err := b.r.run(ctx, "cluster.book", b.r.book.leave, b.keys(id, origin), id, origin, place)
	return err
}

// Names reports whether a ticket that Find would find is for pages of an origin.
func (b Book) Names(ctx context.Context, origin string) (bool, error) {
	out, err := b.r.run(ctx, "cluster.book", b.r.book.origins, []string{b.ofOrigin(origin)}, 1)
	return len(out) > 0, err
}

// Framing returns the origins for whose pages there are tickets to embed.
func (b Book) Framing(ctx context.Context) ([]string, error) {
	out, err := b.r.run(ctx, "cluster.book", b.r.book.origins, []string{b.frames()}, maxFrames)
	for i, member := range out {
		_, out[i], _ = strings.Cut(member, " ")
	}
	slices.Sort(out)
	return slices.Compact(out), err
}
