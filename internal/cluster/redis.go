package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sandgate/sandgate/fault"
)

// RedisOptions say where a Redis directory is.
type RedisOptions struct {
	// URL is redis://host:port/number, or rediss:// with TLS.
	URL string
	// User and Password are the server's; a password has no place in the URL,
	// which logs and process lists show.
	User, Password string
	// Cluster begins all keys, so that clusters can share a server. Default
	// sandgate.
	Cluster string
	// Timeout bounds each step. Default 2 s.
	Timeout time.Duration
	// Logger is told when the server comes and goes; nil means nobody.
	Logger *slog.Logger
}

// Redis is a directory on a Redis server, version 7 or later. Each step is one
// script. Every key of a session or node has a time to live; three more have
// none: a hash of three fields, a sorted set of at most a name for each node
// that was there within an hour, and the table of API keys, see Vault.
type Redis struct {
	client  *redis.Client
	prefix  string
	timeout time.Duration
	events  fan
	log     *slog.Logger
	end     context.CancelFunc
	ended   chan struct{}

	beat, claim, release, find, nodes     *redis.Script
	vaultLoad, vaultReplace, vaultRestore *redis.Script
	vaultEvents                           fan
	book                                  bookScripts
	till, reckon                          *redis.Script
}

//go:embed lua/common.lua
var luaCommon string

//go:embed lua/beat.lua
var luaBeat string

//go:embed lua/claim.lua
var luaClaim string

//go:embed lua/release.lua
var luaRelease string

//go:embed lua/find.lua
var luaFind string

//go:embed lua/nodes.lua
var luaNodes string

// The library's own log has neither levels nor fields; what it would say is in
// the errors.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// NewRedis returns the directory on a server. It connects when it is used.
func NewRedis(o RedisOptions) (*Redis, error) {
	const op = "cluster.redis"
	opts, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, fault.Invalid(op, "redis", "it is no address such as redis://127.0.0.1:6379/0")
	}
	if opts.Password != "" {
		return nil, fault.Invalid(op, "redis", "a password has no place in the address: put it into a file")
	}
	if o.Cluster == "" {
		o.Cluster = "sandgate"
	}
	if err := CheckNode(NodeID(o.Cluster)); err != nil {
		return nil, fault.Invalid(op, "cluster", "a cluster's name has between 1 and %d letters, digits, dots and dashes", MaxName)
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Username, opts.Password = o.User, o.Password
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = o.Timeout, o.Timeout, o.Timeout
	opts.PoolTimeout, opts.ContextTimeoutEnabled = o.Timeout, true
	opts.MaxRetries = -1 // who asks knows best whether to ask again
	opts.DialerRetries = 1
	opts.PoolSize, opts.MinIdleConns = 8, 1
	script := func(flags, body string) *redis.Script {
		return redis.NewScript("#!lua flags=" + flags + "\n" + luaCommon + body)
	}
	r := &Redis{
		client: redis.NewClient(opts), prefix: "sandgate:{" + o.Cluster + "}:", timeout: o.Timeout, log: o.Logger, ended: make(chan struct{}),
		// A claim is refused as a whole when memory is full; what renews or
		// ends one must go through.
		beat: script("allow-oom", luaBeat), claim: script("", luaClaim), release: script("allow-oom", luaRelease),
		find: script("no-writes", luaFind), nodes: script("no-writes", luaNodes),
		vaultLoad: script("no-writes", luaVaultLoad), vaultReplace: script("", luaVaultReplace), vaultRestore: script("", luaVaultRestore),
		book: newBookScripts(script), till: script("allow-oom", luaTill),
		reckon: script("allow-oom", luaReckon),
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.end = cancel
	go r.listen(ctx)
	return r, nil
}

// Close ends the connections. Watches end.
func (r *Redis) Close() error {
	r.end()
	<-r.ended
	r.events.close()
	r.vaultEvents.close()
	return fault.Wrap(fault.Unavailable, "cluster.close", r.client.Close())
}

func (r *Redis) node(id NodeID) string       { return r.prefix + "node:" + string(id) }
func (r *Redis) session(id SessionID) string { return r.prefix + "session:" + string(id) }
func (r *Redis) self() string                { return r.prefix + "directory" }
func (r *Redis) list() string                { return r.prefix + "nodes" }
func (r *Redis) channel() string             { return r.prefix + "events" }

// run runs a script that returns strings.
func (r *Redis) run(ctx context.Context, op string, s *redis.Script, keys []string, args ...any) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	out, err := s.Run(ctx, r.client, keys, args...).StringSlice()
	if err == nil {
		return out, nil
	}
	return nil, away(op, err)
}

// away is the error of a step that the server did not do.
func away(op string, err error) error {
	if err == nil {
		return nil
	}
	message := "the directory cannot be reached"
	if strings.HasPrefix(err.Error(), "OOM") {
		message = "the directory is full"
	}
	if errors.Is(err, context.Canceled) {
		return fault.Wrap(fault.Canceled, op, err)
	}
	return &fault.Error{Kind: fault.Unavailable, Op: op, Message: message, RetryAfter: 2, Err: err}
}

func number(t Token) string { return strconv.FormatUint(uint64(t), 10) }

func token(op, s string) (Token, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fault.New(fault.Internal, op, "the directory holds a token that is no number")
	}
	return Token(n), nil
}

// Beat renews a node's lease, or begins it.
func (r *Redis) Beat(ctx context.Context, b Beat) (Beaten, error) {
	const op = "cluster.beat"
	if err := b.check(); err != nil {
		return Beaten{}, err
	}
	info, err := json.Marshal(b.Info)
	if err != nil || len(info) > MaxInfo {
		return Beaten{}, fault.New(fault.TooLarge, op, "a node says at most %d bytes of itself", MaxInfo)
	}
	out, err := r.run(ctx, op, r.beat, []string{r.self(), r.node(b.Node), r.list()},
		string(b.Node), b.Instance, number(b.Incarnation), number(b.Floor), b.Lease.Milliseconds(), info, r.channel())
	if err != nil {
		return Beaten{}, err
	}
	switch out[0] {
	case "other":
		return Beaten{}, fault.New(fault.Conflict, op, "another process is node %s", b.Node)
	case "expired":
		return Beaten{}, expired(op)
	}
	var a Beaten
	if a.Incarnation, err = token(op, out[1]); err != nil {
		return a, err
	}
	if a.Epoch, err = token(op, out[2]); err != nil {
		return a, err
	}
	a.Now, err = token(op, out[3])
	return a, err
}

// Claim makes a node a session's owner.
func (r *Redis) Claim(ctx context.Context, c Claim) (Token, error) {
	const op = "cluster.claim"
	if err := c.check(); err != nil {
		return 0, err
	}
	if c.Mode != New && c.Mode != Keep && c.Mode != Take {
		return 0, fault.Invalid(op, "mode", "there is no mode %q", c.Mode)
	}
	life := max(time.Until(c.Until), time.Millisecond)
	out, err := r.run(ctx, op, r.claim, []string{r.self(), r.session(c.Session), r.node(c.Node), r.list()},
		string(c.Session), string(c.Node), number(c.Incarnation), string(c.Mode), number(c.Last),
		c.Lease.Milliseconds(), life.Milliseconds(), r.node(""), r.channel(), c.Grace.Milliseconds(), number(c.Now))
	if err != nil {
		return 0, err
	}
	switch out[0] {
	case "expired":
		return 0, expired(op)
	case "taken":
		return 0, taken(op, NodeID(out[1]))
	case "missed":
		left, _ := strconv.Atoi(out[2])
		return 0, missed(op, NodeID(out[1]), time.Duration(left)*time.Millisecond)
	case "young":
		wait, _ := strconv.Atoi(out[1])
		return 0, &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: wait,
			Message: "the directory was started anew, or its clock set, and who owns the session may not have told it yet",
		}
	}
	return token(op, out[1])
}

// Park says that nobody has the session any more, and that its state is where
// any node can read it.
func (r *Redis) Park(ctx context.Context, id SessionID, token Token, works bool) error {
	return r.letGo(ctx, "cluster.park", id, token, "park", works)
}

// Forget forgets a session that has ended.
func (r *Redis) Forget(ctx context.Context, id SessionID, token Token) error {
	return r.letGo(ctx, "cluster.forget", id, token, "forget", false)
}

func (r *Redis) letGo(ctx context.Context, op string, id SessionID, token Token, how string, works bool) error {
	if err := CheckSession(id); err != nil {
		return err
	}
	flag := "0"
	if works {
		flag = "1"
	}
	out, err := r.run(ctx, op, r.release, []string{r.self(), r.session(id)}, string(id), number(token), how, r.channel(), flag)
	if err == nil && out[0] == "taken" {
		err = taken(op, NodeID(out[1]))
	}
	return err
}

// Find returns a session's owner: NotFound when the directory does not know
// it.
func (r *Redis) Find(ctx context.Context, id SessionID) (Owner, error) {
	const op = "cluster.find"
	if err := CheckSession(id); err != nil {
		return Owner{}, err
	}
	out, err := r.run(ctx, op, r.find, []string{r.self(), r.session(id)}, r.node(""))
	if err != nil {
		return Owner{}, err
	}
	if out[0] == "none" {
		return Owner{}, unknown(op)
	}
	o := Owner{Session: id, Node: NodeID(out[1]), Live: out[3] == "live"}
	if o.Token, err = token(op, out[2]); err != nil {
		return o, err
	}
	if o.Live {
		var info Info
		if err := json.Unmarshal([]byte(out[4]), &info); err != nil {
			return o, fault.Wrap(fault.Malformed, op, err)
		}
		o.Address = info.Address
	}
	return o, nil
}

// Nodes lists the nodes whose leases are good.
func (r *Redis) Nodes(ctx context.Context) ([]Node, error) {
	const op = "cluster.nodes"
	out, err := r.run(ctx, op, r.nodes, []string{r.self(), r.list()}, r.node(""), MaxNodes)
	if err != nil {
		return nil, err
	}
	var all []Node
	for ; len(out) >= 3; out = out[3:] {
		n := Node{ID: NodeID(out[0])}
		age, err := strconv.ParseInt(out[1], 10, 64)
		if err == nil {
			err = json.Unmarshal([]byte(out[2]), &n.Info)
		}
		if err != nil {
			return nil, fault.Wrap(fault.Malformed, op, err)
		}
		n.Age = time.Duration(age) * time.Microsecond
		all = append(all, n)
	}
	return all, nil
}

// Watch tells of changes until ctx ends. The first event is empty, and so is
// one after each time that the connection was lost.
func (r *Redis) Watch(ctx context.Context) <-chan Event { return r.events.join(ctx) }

// listen takes the server's events until ctx ends.
func (r *Redis) listen(ctx context.Context) {
	defer close(r.ended)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		if r.subscribe(ctx) {
			pause = 50 * time.Millisecond
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// silence is how long a subscription may say nothing before it is asked, and
// how long the answer may then take.
const silence = 5 * time.Second

// subscribe takes events until the connection is lost. It is true when there
// was one.
func (r *Redis) subscribe(ctx context.Context) (was bool) {
	sub := r.client.Subscribe(ctx, r.channel(), r.vaultChannel())
	defer func() { _ = sub.Close() }()
	// A context alone does not end a read.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	for asked := false; ; {
		m, err := sub.ReceiveTimeout(ctx, silence)
		var late net.Error
		switch {
		case err == nil:
			asked = false
		case ctx.Err() != nil:
			return was
		case errors.As(err, &late) && late.Timeout() && was && !asked && sub.Ping(ctx) == nil:
			asked = true
			continue
		default:
			if was {
				r.log.Warn("the directory's events are cut off", "error", err)
			}
			return was
		}
		switch m := m.(type) {
		case *redis.Subscription:
			if !was {
				r.log.Info("listening to the directory's events")
			}
			was = true
			r.events.tell(Event{}) // what came before was missed
			r.vaultEvents.tell(Event{})
		case *redis.Message:
			if m.Channel == r.vaultChannel() {
				r.vaultEvents.tell(Event{})
				continue
			}
			var e Event
			if json.Unmarshal([]byte(m.Payload), &e) == nil {
				r.events.tell(e)
			}
		}
	}
}
