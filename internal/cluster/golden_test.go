package cluster_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	bolt "go.etcd.io/bbolt"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/golden"
)

// goldenUntil is when the records of the golden files end.
var goldenUntil = time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC)

// goldenTimes are the numbers that depend on the clock, and the server's id.
var goldenTimes = regexp.MustCompile(`\b(\d{16}|[0-9a-f]{40})\b`)

// TestGoldenRedis compares every key that a cluster has on its Redis server,
// with its values and events, and reads the golden keys from a new server.
func TestGoldenRedis(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	defer func() { _ = client.Close() }()
	ctx := within(t)
	heard := client.PSubscribe(ctx, "*")
	defer func() { _ = heard.Close() }()
	if _, err := heard.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	fillRedis(t, server.join(t, "golden"))
	dump := redisDump{Keys: dumpRedis(t, client)}
	for range 5 {
		m, err := heard.ReceiveMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		dump.Events = append(dump.Events, m.Channel+" "+m.Payload)
	}
	text, err := json.MarshalIndent(dump, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "redis.json", goldenTimes.ReplaceAllString(string(text), "TIME")+"\n")

	if err := client.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	writeRedis(t, client)
	readRedis(t, server.join(t, "golden"))
}

// redisDump is the content of a server as it stands in the golden file.
type redisDump struct {
	Keys map[string]redisKey `json:"keys"`
	// Events are the channels and the messages.
	Events []string `json:"events"`
}

type redisKey struct {
	Type    string            `json:"type"`
	Expires bool              `json:"expires"`
	String  string            `json:"string,omitempty"`
	Hash    map[string]string `json:"hash,omitempty"`
	// Set has the members of a sorted set with their scores.
	Set map[string]string `json:"sorted_set,omitempty"`
}

// dumpRedis returns all keys and values of a server.
func dumpRedis(t *testing.T, c *goredis.Client) map[string]redisKey {
	t.Helper()
	ctx := within(t)
	names, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]redisKey{}
	for _, name := range names {
		k := redisKey{Type: c.Type(ctx, name).Val(), Expires: c.PTTL(ctx, name).Val() > 0}
		switch k.Type {
		case "string":
			k.String, err = c.Get(ctx, name).Result()
		case "hash":
			k.Hash, err = c.HGetAll(ctx, name).Result()
		case "zset":
			var members []goredis.Z
			members, err = c.ZRangeWithScores(ctx, name, 0, -1).Result()
			k.Set = map[string]string{}
			for _, m := range members {
				k.Set[fmt.Sprint(m.Member)] = strconv.FormatFloat(m.Score, 'f', -1, 64)
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = k
	}
	return all
}

// writeRedis writes the keys of the golden file to a server. It sets all their times to one hour.
func writeRedis(t *testing.T, c *goredis.Client) {
	t.Helper()
	ctx := within(t)
	text, err := os.ReadFile(golden.File("redis.json"))
	if err != nil {
		t.Fatal(err)
	}
	then := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	var dump redisDump
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("TIME"), []byte(then)),
		&dump); err != nil {
		t.Fatal(err)
	}
	for name, k := range dump.Keys {
		switch k.Type {
		case "string":
			err = c.Set(ctx, name, k.String, time.Hour).Err()
		case "hash":
			err = c.HSet(ctx, name, k.Hash).Err()
		case "zset":
			for member, score := range k.Set {
				n, _ := strconv.ParseFloat(score, 64)
				err = errors.Join(err, c.ZAdd(ctx, name, goredis.Z{Score: n, Member: member}).Err())
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// fillRedis uses each kind of key once.
func fillRedis(t *testing.T, r redisCluster) {
	ctx := within(t)
	n := register(t, r, cluster.Heartbeat{
		Node: "n1", Instance: "disk", Lease: long,
		Info: cluster.NodeInfo{
			Address: "host:1", Sessions: 1, Most: 2, Hibernated: 3,
			Ready:    map[string]int{"python": 4},
			Draining: true, Zone: "z", Image: "key", Memory: 9, MemoryUsed: 5, Processors: 0.25,
			Disk: 8, DiskFree: 6,
		},
	})
	named := cluster.NameClaim{
		Session: "s_kept", Tenant: "a:b", Name: "work",
		Token: mustClaim(t, r, claimOf("n1", n, "s_kept", cluster.ClaimNew, 0)),
	}
	if _, err := r.ClaimName(ctx, named); err != nil {
		t.Fatal(err)
	}
	token := mustClaim(t, r, claimOf("n1", n, "s_parked", cluster.ClaimNew, 0))
	vault := r.KeyTableStore()
	for _, err := range []error{
		r.Release(ctx, "s_parked", token, cluster.ReleaseInfo{Busy: true, Memory: 7, Image: "key"}),
		vault.Restore(ctx, 7, []byte("table")),
		r.OneTimeStore().Put(ctx, "name", []byte("thing"), time.Hour),
		r.RunTokenStore().Add(ctx, cluster.RunToken{
			ID: "ticket1", Data: []byte("thing"), Origin: "https://a.test", Embed: true,
			Life: time.Hour,
			Uses: 3, Concurrent: 2, PerMinute: 5,
		}, 10),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if v, _, err := r.RunTokenStore().Begin(
		ctx, "ticket1", "https://a.test", "place", time.Hour,
	); err != nil || v != cluster.RunTokenAccepted {
		t.Fatal(v, err)
	}
	if _, err := r.RateStore().Settle(ctx, []cluster.Consumption{
		{Name: "tenant:a", Rate: 5, Burst: 10, Requests: 4},
	}); err != nil {
		t.Fatal(err)
	}
	parked := cluster.ReleasedSession{
		Session: "s_parked", Until: goldenUntil, Used: cluster.Amounts{1, 0.5},
	}
	if _, err := r.Report(ctx, cluster.UsageReport{
		Node: "n1", Incarnation: n, Lease: long, Number: 1, Complete: true,
		All: []cluster.NodeUsage{
			{Holder: "tenant:a", Used: cluster.Amounts{1, 2.5}, Released: &parked},
		},
	}); err != nil {
		t.Fatal(err)
	}
}

// readRedis reads the values that fillRedis has written.
func readRedis(t *testing.T, r redisCluster) {
	ctx := within(t)
	o, err := r.Find(ctx, "s_kept")
	if err != nil || o.Node != "n1" || !o.Live || o.Address != "host:1" {
		t.Errorf("the session's owner: %+v, %v", o, err)
	}
	if is, err := r.FindName(ctx, "a:b", "work"); err != nil || is.Session != "s_kept" {
		t.Errorf("the session with the name: %+v, %v", is, err)
	}
	if o, err = r.Find(ctx, "s_parked"); err != nil || o.Node != "" || o.Token == 0 ||
		o.Memory != 7 || o.Image != "key" {
		t.Errorf("the parked session's owner: %+v, %v", o, err)
	}
	nodes, err := r.Nodes(ctx)
	if err != nil || len(nodes) != 1 || nodes[0].Ready["python"] != 4 || !nodes[0].Draining ||
		nodes[0].Zone != "z" || nodes[0].MemoryUsed != 5 || nodes[0].Processors != 0.25 {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	if is, data, err := r.KeyTableStore().Load(ctx, 0); err != nil || is != 7 ||
		string(data) != "table" {
		t.Errorf("the table of keys: %d, %q, %v", is, data, err)
	}
	if b, err := r.OneTimeStore().Take(ctx, "name"); err != nil || string(b) != "thing" {
		t.Errorf("a ticket: %q, %v", b, err)
	}
	book := r.RunTokenStore()
	if b, err := book.Find(ctx, "ticket1"); err != nil || string(b) != "thing" {
		t.Errorf("a run ticket: %q, %v", b, err)
	}
	if ok, err := book.Names(ctx, "https://a.test"); err != nil || !ok {
		t.Errorf("the run ticket's origin: %v, %v", ok, err)
	}
	if all, err := book.Framing(ctx); err != nil || !slices.Equal(all, []string{"https://a.test"}) {
		t.Errorf("the origins of frames: %v, %v", all, err)
	}
	if v, _, err := book.Begin(
		ctx, "ticket1", "https://a.test", "other", time.Hour,
	); err != nil || v != cluster.RunTokenAccepted {
		t.Errorf("the second run: %v, %v", v, err)
	}
	if v, _, err := book.Begin(
		ctx, "ticket1", "https://a.test", "third", time.Hour,
	); err != nil || v != cluster.RunTokenBusy {
		t.Errorf("the third run: %v, %v", v, err)
	}
	if left, err := r.RateStore().Settle(ctx, []cluster.Consumption{
		{Name: "tenant:a", Rate: 5, Burst: 10},
	}); err != nil || len(left) != 1 || left[0] < 6 {
		t.Errorf("the rate: %v, %v", left, err)
	}
	n := register(t, r, heartbeatOf("n2"))
	holds(t, report(t, r, "n2", n, cluster.NodeUsage{Holder: "tenant:a"}), 2, 3)
}

// TestGoldenLocalDirectory compares the content of the file of a directory for one process, and
// reads the golden file.
func TestGoldenLocalDirectory(t *testing.T) {
	ctx := within(t)
	path := filepath.Join(t.TempDir(), "directory")
	e := openLocal(t, path)
	n := register(t, e, heartbeatOf("n1"))
	kept, parked := claimOf(
		"n1", n, "s_kept", cluster.ClaimNew, 0,
	), claimOf("n1", n, "s_parked", cluster.ClaimNew, 0)
	kept.Until, parked.Until = goldenUntil, goldenUntil
	if _, err := e.ClaimName(ctx, cluster.NameClaim{
		Session: "s_kept", Token: mustClaim(t, e, kept), Tenant: "a", Name: "work",
	}); err != nil {
		t.Fatal(err)
	}
	if err := e.Release(ctx, "s_parked", mustClaim(t, e, parked),
		cluster.ReleaseInfo{Busy: true, Memory: 7, Image: "key"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]string{}
	inFile(t, path, func(tx *bolt.Tx) error {
		return tx.ForEach(func(bucket []byte, b *bolt.Bucket) error {
			got[string(bucket)] = map[string]string{}
			return b.ForEach(func(k, v []byte) error {
				text := string(v)
				if string(bucket) == "meta" && len(v) == 8 {
					text = strconv.FormatUint(binary.BigEndian.Uint64(v), 10)
				}
				got[string(bucket)][string(k)] = goldenTimes.ReplaceAllString(text, "TIME")
				return nil
			})
		})
	})
	text, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "directory.json", string(text)+"\n")
	readLocal(t)
}

// readLocal opens a file with the content of the golden file. Its times are one hour ahead.
func readLocal(t *testing.T) {
	ctx := within(t)
	text, err := os.ReadFile(golden.File("directory.json"))
	if err != nil {
		t.Fatal(err)
	}
	then := uint64(time.Now().Add(time.Hour).UnixMicro())
	var want map[string]map[string]string
	if err := json.Unmarshal(
		bytes.ReplaceAll(text, []byte("TIME"), []byte(strconv.FormatUint(then, 10))), &want,
	); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "directory")
	inFile(t, path, func(tx *bolt.Tx) error {
		for name, values := range want {
			b, err := tx.CreateBucket([]byte(name))
			if err != nil {
				return err
			}
			for k, v := range values {
				value := []byte(v)
				if name == "meta" {
					value = binary.BigEndian.AppendUint64(nil, then)
				}
				if err := b.Put([]byte(k), value); err != nil {
					return err
				}
			}
		}
		return nil
	})
	e := openLocal(t, path)
	if o, err := e.Find(ctx, "s_kept"); err != nil || o.Node != "n1" || uint64(o.Token) != then {
		t.Errorf("the session's owner: %+v, %v", o, err)
	}
	if o, err := e.Find(ctx, "s_parked"); err != nil || o.Node != "" || uint64(o.Token) != then {
		t.Errorf("the parked session's owner: %+v, %v", o, err)
	}
	if n := register(t, e, heartbeatOf("n1")); uint64(n) <= then {
		t.Errorf("the next token is %d, and not above the last one, %d", n, then)
	}
}

func inFile(t *testing.T, path string, f func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err == nil {
		err = errors.Join(db.Update(f), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
