// Package redis implements the stores of a cluster on a Redis server, version 7 or
// later: the session directory with its quota ledger, the key table, one-time
// tokens, run tokens and rate limits. Each step is one command or one script of
// folder lua.
package redis

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Options are the options of a Client.
type Options struct {
	// URL is redis://host:port/number, or rediss:// with TLS.
	URL string
	// User and Password authenticate to the server. The URL must not contain the
	// password, since logs and process lists show it.
	User, Password string
	// Cluster is a part of all keys, so that clusters can share a server. Default
	// sandgate.
	Cluster string
	// Timeout limits each step. Default 2 s.
	Timeout time.Duration
	// Logger gets a line when the connection to the server is lost or restored; nil means none.
	Logger *slog.Logger
}

// Client holds the connections to a Redis server. Every key of a session or node
// has a time to live. Three keys have none: a hash of three fields, a sorted set
// with a name per node of the last hour, and the key table.
type Client struct {
	client    *goredis.Client
	scripts   scripts
	prefix    string
	timeout   time.Duration
	log       *slog.Logger
	events    cluster.Broadcaster // events of the directory
	keyEvents cluster.Broadcaster // events of the key table; all are empty
	feeds     cluster.FeedWatch
	relay     *Relay
	cancel    context.CancelFunc
	work      sync.WaitGroup
}

//go:embed lua/*.lua
var luaFiles embed.FS

// scripts are the scripts of all stores.
type scripts struct {
	heartbeat, claim, release, find, nodes, quotaReport   *goredis.Script
	leave, verify, absent                                 *goredis.Script
	keyTableLoad, keyTableReplace, keyTableRestore        *goredis.Script
	runTokenAdd, runTokenFind, runTokenEnd, runTokenBegin *goredis.Script
	runTokenLeave, runTokenOrigins                        *goredis.Script
	nameClaim, nameFind, nameDrop, keyClaim               *goredis.Script
	rateSettle, checkDirectory, checkRunTokens            *goredis.Script
	webhookReplace, webhookList                           *goredis.Script
	feedAppend, feedRead, reserveName                     *goredis.Script
}

// Flags of scripts. A claim is refused as a whole when the server's memory is
// full; steps that renew or end something must succeed even then.
const (
	readOnly  = "no-writes"
	refusable = ""
	allowFull = "allow-oom"
)

func newScripts() scripts {
	// load returns the script of the named files, which run one after the other.
	load := func(flags string, names ...string) *goredis.Script {
		var body strings.Builder
		body.WriteString("#!lua flags=" + flags + "\n")
		for _, name := range append([]string{"common"}, names...) {
			b, _ := luaFiles.ReadFile("lua/" + name + ".lua") // never fails: it is embedded
			body.Write(b)
		}
		return goredis.NewScript(body.String())
	}
	return scripts{
		heartbeat:       load(allowFull, "heartbeat"),
		leave:           load(allowFull, "leave"),
		verify:          load(readOnly, "verify"),
		claim:           load(refusable, "left", "claim"),
		release:         load(allowFull, "left", "release"),
		find:            load(readOnly, "find"),
		nodes:           load(readOnly, "nodes"),
		absent:          load(readOnly, "absent"),
		nameClaim:       load(refusable, "name_claim"),
		keyClaim:        load(refusable, "key_claim"),
		nameFind:        load(readOnly, "name_find"),
		nameDrop:        load(allowFull, "name_drop"),
		quotaReport:     load(allowFull, "left", "quota_report"),
		keyTableLoad:    load(readOnly, "key_table_load"),
		keyTableReplace: load(refusable, "key_table_replace"),
		keyTableRestore: load(refusable, "key_table_restore"),
		runTokenAdd:     load(refusable, "run_token_common", "run_token_add"),
		runTokenBegin:   load(refusable, "run_token_common", "run_token_begin"),
		runTokenEnd:     load(allowFull, "run_token_common", "run_token_end"),
		runTokenLeave:   load(allowFull, "run_token_common", "run_token_leave"),
		runTokenFind:    load(readOnly, "run_token_find"),
		runTokenOrigins: load(readOnly, "run_token_origins"),
		rateSettle:      load(allowFull, "rate_settle"),
		feedAppend:      load(refusable, "feed_append"),
		feedRead:        load(readOnly, "feed_read"),
		webhookReplace:  load(refusable, "webhook_replace"),
		webhookList:     load(readOnly, "webhook_list"),
		reserveName:     load(allowFull, "reserve_name"),
		checkDirectory:  load(readOnly, "left", "consistency_directory"),
		checkRunTokens:  load(readOnly, "consistency_run_tokens"),
	}
}

// The log of the library has neither levels nor fields. The errors contain the
// same information.
func init() { goredis.SetLogger(noLog{}) }

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// Open returns a client of a server. It connects with the first step.
func Open(o Options) (*Client, error) {
	const op = "redis.open"
	opts, err := goredis.ParseURL(o.URL)
	if err != nil {
		return nil, fault.Invalid(op, "redis",
			"it is not an address such as redis://127.0.0.1:6379/0")
	}
	if opts.Password != "" {
		return nil, fault.Invalid(
			op, "redis", "a password has no place in the address: put it into a file",
		)
	}
	if o.Cluster == "" {
		o.Cluster = "sandgate"
	}
	if err := cluster.CheckNode(cluster.NodeID(o.Cluster)); err != nil {
		return nil, fault.Invalid(op, "cluster",
			"a cluster's name has between 1 and %d letters, digits, dots and dashes",
			cluster.MaxName)
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
	opts.MaxRetries = -1 // the caller decides about retries
	opts.DialerRetries = 1
	opts.PoolSize, opts.MinIdleConns = 8, 1
	c := &Client{
		client: goredis.NewClient(opts), scripts: newScripts(), prefix: "sandgate:{" + o.Cluster +
			"}:",
		timeout: o.Timeout, log: o.Logger,
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.relay = &Relay{c: c, waiting: make(chan []byte, maxRelayed)}
	c.work.Go(func() { c.listen(ctx) })
	c.work.Go(func() { c.relay.run(ctx) })
	return c, nil
}

// Close closes the connections. All watches end.
func (c *Client) Close() error {
	c.cancel()
	c.work.Wait()
	c.events.Close()
	c.keyEvents.Close()
	return fault.Wrap(fault.Unavailable, "redis.close", c.client.Close())
}

// The names of keys and channels.
func (c *Client) node(id cluster.NodeID) string       { return c.prefix + "node:" + string(id) }
func (c *Client) session(id cluster.SessionID) string { return c.prefix + "session:" + string(id) }
func (c *Client) wanted(id cluster.NodeID) string     { return c.prefix + "wanted:" + string(id) }
func (c *Client) directoryKey() string                { return c.prefix + "directory" }
func (c *Client) nodesKey() string                    { return c.prefix + "nodes" }
func (c *Client) eventsChannel() string               { return c.prefix + "events" }
func (c *Client) keyTableKey() string                 { return c.prefix + "keys" }
func (c *Client) keyTableChannel() string             { return c.prefix + "keys" }

// run runs a script that returns strings.
func (c *Client) run(
	ctx context.Context, op string, s *goredis.Script, keys []string, args ...any,
) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := s.Run(ctx, c.client, keys, args...).StringSlice()
	if err == nil {
		return out, nil
	}
	return nil, unavailable(op, err)
}

// unavailable returns the error of a step that the server did not do.
func unavailable(op string, err error) error {
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

func number(t cluster.Token) string { return strconv.FormatUint(uint64(t), 10) }

func parseToken(op, s string) (cluster.Token, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fault.New(fault.Internal, op, "the directory holds a token that is not a number")
	}
	return cluster.Token(n), nil
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// listen receives the events of the server until ctx ends.
func (c *Client) listen(ctx context.Context) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		if c.subscribe(ctx) {
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

// silence is how long a subscription may be silent before the client pings the
// server, and how long the answer may then take.
const silence = 5 * time.Second

// subscribe receives events until the connection is lost. It reports whether a
// connection existed.
func (c *Client) subscribe(ctx context.Context) (connected bool) {
	sub := c.client.Subscribe(
		ctx, c.eventsChannel(), c.keyTableChannel(), c.feedChannel(), c.relayChannel(),
	)
	defer func() { _ = sub.Close() }()
	// A context alone does not end a read.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	for pinged := false; ; {
		m, err := sub.ReceiveTimeout(ctx, silence)
		var late net.Error
		switch {
		case err == nil:
			pinged = false
		case ctx.Err() != nil:
			return connected
		case errors.As(err, &late) && late.Timeout() && connected && !pinged &&
			sub.Ping(ctx) == nil:
			pinged = true
			continue
		default:
			if connected {
				c.log.Warn("the subscription to the directory's events was lost", "error", err)
			}
			return connected
		}
		switch m := m.(type) {
		case *goredis.Subscription:
			if !connected {
				c.log.Info("the directory's events are received")
			}
			connected = true
			c.events.Publish(cluster.Event{}) // earlier events were missed
			c.keyEvents.Publish(cluster.Event{})
			c.feeds.NotifyAll()
		case *goredis.Message:
			switch m.Channel {
			case c.keyTableChannel():
				c.keyEvents.Publish(cluster.Event{})
				continue
			case c.feedChannel():
				c.feeds.Notify(m.Payload)
				continue
			case c.relayChannel():
				c.relay.deliver([]byte(m.Payload))
				continue
			}
			var e cluster.Event
			if json.Unmarshal([]byte(m.Payload), &e) == nil {
				c.events.Publish(e)
			}
		}
	}
}
