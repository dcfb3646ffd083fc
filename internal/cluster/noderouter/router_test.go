package noderouter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/listing"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// testNode is a node that speaks the node protocol over mutual TLS. Its sessions and
// volumes are only names.
type testNode struct {
	id     cluster.NodeID
	keeper *cluster.LeaseHolder
	links  chan *noderpc.Link
	ln     net.Listener
	// silence ends the node's heartbeats.
	silence func()
	// onParked is called after each list of parked sessions, with mu held.
	onParked func()
	// copyOf is the node that wrote the copies in the store; empty for parked sessions.
	copyOf cluster.NodeID
	// onList returns the sessions that have left, for each list.
	onList func() []listing.Left

	mu       sync.Mutex // guards all below
	sessions map[string]string
	names    map[string]string
	made     int
	parked   *map[string]string // the parked sessions of all nodes
	volumes  map[string]bool
	template protocol.Template // the only one
	// stored has the templates in the blob store of all nodes; nil means that there is none.
	stored   *[]protocol.Template
	storeErr error // why the blob store does not answer
	// records has the folders of all nodes in the blob store; nil means that there is none.
	records  *map[string]recorded
	requests []string          // the names of the operations
	ended    map[string]string // the reason for the end of sessions
	mute     bool              // it does not describe itself
	// declines is how many requests for a place the nodes that share it still decline, as drained
	// nodes do; nil means none.
	declines *atomic.Int32
	leaving  atomic.Bool // it is about to end
}

func (k *testNode) ServeLink(_ context.Context, l *noderpc.Link) error {
	select {
	case k.links <- l:
	default:
	}
	for {
		l.Wait()
		f, err := l.Next()
		if err != nil {
			return err
		}
		if f.Type != frame.Control {
			// The answer has the node's name before the body.
			body := append([]byte(k.id+":"), f.Body...)
			if err := l.Send(frame.Frame{
				Type: frame.Records, Channel: f.Channel, Body: body,
			}); err != nil {
				return err
			}
			continue
		}
		var r protocol.Request
		if err := json.Unmarshal(f.Body, &r); err != nil {
			return err
		}
		reply := protocol.Reply{ID: r.ID}
		result, err := k.carry(l.Principal(), r)
		if err != nil {
			p := fault.PublicOf(err)
			reply.Error = &p
		} else {
			reply.Result, _ = json.Marshal(result)
		}
		body, _ := json.Marshal(reply)
		if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
			return err
		}
	}
}

func (k *testNode) carry(who noderpc.Principal, r protocol.Request) (any, error) {
	t := fieldsOf(r.Params)
	missing := &fault.Error{
		Kind: fault.NotFound, Op: r.Op, Field: "session", Message: "there is no such session",
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests = append(k.requests, r.Op)
	if strings.HasPrefix(r.Op, "volume.") || strings.HasPrefix(r.Op, "template.") {
		return k.carryResource(r)
	}
	if k.declines != nil && (r.Op == protocol.OpSessionCreate || r.Op == protocol.OpAdopt) &&
		k.declines.Add(-1) >= 0 {
		return nil, &fault.Error{
			Kind: fault.Unavailable, Op: r.Op, Field: nodes.Draining, Message: "it is drained",
		}
	}
	switch r.Op {
	case protocol.OpUsageReport, protocol.OpAuditList, protocol.OpUsageStored,
		protocol.OpAuditStored:
		return k.report(r)
	case protocol.OpSessionEnsure:
		return k.ensure(who, decode[protocol.SessionName](r.Params).Name)
	case protocol.OpSessionCreate:
		id := fmt.Sprintf("s_%s_%d", k.id, len(k.sessions))
		if _, err := k.keeper.Own(
			context.Background(), cluster.SessionID(id), cluster.ClaimNew, 0,
			time.Now().Add(time.Hour),
		); err != nil {
			return nil, err
		}
		k.sessions[id] = who.Tenant
		return protocol.Session{ID: id}, nil
	case protocol.OpSessionList:
		var l protocol.SessionList
		for id, tenant := range k.sessions {
			if tenant == who.Tenant {
				l.Sessions = append(l.Sessions, protocol.Session{ID: id, Name: k.names[id]})
			}
		}
		if k.onList != nil {
			return listing.Answer{SessionList: l, Left: k.onList()}, nil
		}
		return l, nil
	case protocol.OpTenantList:
		return protocol.TenantList{Tenants: []protocol.Tenant{
			{Name: string(k.id), Use: protocol.Use{Sessions: 1}},
			{Name: who.Tenant, Keys: 3, Use: protocol.Use{
				Sessions: len(k.sessions), CPUs: 0.5, DiskBytes: 7,
			}},
		}}, nil
	case protocol.OpParked:
		var l protocol.SessionList
		for id, tenant := range *k.parked {
			if tenant == who.Tenant {
				l.Sessions = append(l.Sessions, protocol.Session{ID: id, State: "hibernated"})
			}
		}
		if k.onParked != nil {
			k.onParked()
		}
		return l, nil
	case protocol.OpAdopt:
		tenant, there := (*k.parked)[t.Session]
		switch {
		case !there:
			return nil, &fault.Error{
				Kind: fault.NotFound, Op: r.Op, Field: protocol.FieldAbsent, Message: "it is absent",
			}
		case tenant != who.Tenant:
			return nil, missing
		}
		if _, err := k.keeper.TakeOver(context.Background(), cluster.SessionID(t.Session),
			k.copyOf, 0, time.Now().Add(time.Hour)); err != nil {
			return nil, err
		}
		k.sessions[t.Session] = tenant
		return protocol.Session{ID: t.Session}, nil
	case protocol.OpMetrics:
		return protocol.Metrics{
			Text: "# HELP a_total Some.\n# TYPE a_total counter\na_total 1\n# HELP b Others.\n# TYPE b gauge\nb{kind=\"x\"} 2\n",
		}, nil
	case protocol.OpNodeList:
		if k.mute {
			return nil, fault.New(fault.Unavailable, r.Op, "it is mute")
		}
		one := nodes.NodeInfo{Name: string(k.id), State: nodes.Ready}
		return nodes.NodeList{Nodes: []nodes.NodeInfo{one}}, nil
	case protocol.OpNodeUpdate:
		return nodes.NodeInfo{Name: string(k.id)}, nil
	case protocol.OpStatus:
		return protocol.NodeStatus{
			Version: "v", Sessions: len(k.sessions), Counters: map[string]int64{"n": 1},
		}, nil
	}
	if reason := k.ended[t.Session]; reason != "" && r.Op == protocol.OpSessionOwner {
		return nodes.SessionOwner{Tenant: who.Tenant, Ended: reason}, nil
	}
	if t.Session != "" && k.sessions[t.Session] != who.Tenant {
		return nil, missing
	}
	return map[string]string{"node": string(k.id), "trace": r.Trace}, nil
}

// ensure creates a session with a name. mu is held.
func (k *testNode) ensure(who noderpc.Principal, name string) (any, error) {
	ctx := context.Background()
	k.made++
	id := cluster.SessionID(fmt.Sprintf("s_%s_named_%d", k.id, k.made))
	if _, err := k.keeper.Own(ctx, id, cluster.ClaimNew, 0,
		time.Now().Add(time.Hour)); err != nil {
		return nil, err
	}
	if _, err := k.keeper.ClaimName(ctx, id, who.Tenant, name, false); err != nil {
		k.keeper.Forget(ctx, id)
		return nil, err
	}
	if k.names == nil {
		k.names = map[string]string{}
	}
	k.sessions[string(id)], k.names[string(id)] = who.Tenant, name
	return protocol.Ensured{Session: protocol.Session{ID: string(id)}, Created: true}, nil
}

// carryResource carries out an operation on a volume or a template. mu is held.
func (k *testNode) carryResource(r protocol.Request) (any, error) {
	name := decode[protocol.VolumeRef](r.Params).Name
	switch r.Op {
	case protocol.OpVolumeList:
		var l protocol.VolumeList
		for name := range k.volumes {
			l.Volumes = append(l.Volumes, protocol.Volume{Name: name})
		}
		return l, nil
	case protocol.OpTemplateList:
		var l protocol.TemplateList
		if k.template.Name != "" {
			l.Templates = append(l.Templates, k.template)
		}
		return l, nil
	case protocol.OpVolumeCreate:
		if k.volumes[name] {
			return nil, fault.New(fault.Conflict, r.Op, "you have a volume of this name")
		}
		k.volumes[name] = true
		return protocol.Volume{Name: name}, nil
	case protocol.OpTemplateBuild:
		return k.template, nil
	case protocol.OpTemplateStored:
		return k.storedTemplates(name)
	}
	if k.template.Name == name && strings.HasPrefix(r.Op, "template.") {
		return k.template, nil
	}
	if !k.volumes[name] {
		return nil, fault.New(fault.NotFound, r.Op, "there is no such volume")
	}
	if r.Op == protocol.OpVolumeDelete {
		delete(k.volumes, name)
	}
	return protocol.Volume{Name: name, CreatedMS: int64(k.id[0])}, nil
}

// startNodes starts nodes with mutual TLS and a directory, and returns their router.
func startNodes(t testing.TB, names ...string) (*Router, []*testNode) {
	t.Helper()
	return startNodesSeen(t, func(l cluster.Lookup) cluster.Lookup { return l }, names...)
}

// startNodesSeen is startNodes with a router that sees the directory through see.
func startNodesSeen(
	t testing.TB, see func(cluster.Lookup) cluster.Lookup, names ...string,
) (*Router, []*testNode) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	must(err)
	ca := t.TempDir()
	must(noderpc.MakeCA(ca))
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		work.Wait()
		if err := dir.ConsistencyCheck(context.Background()); err != nil {
			t.Errorf("the directory is inconsistent: %v", err)
		}
		_ = dir.Close()
	})
	parked := map[string]string{}
	var all []*testNode
	identities := t.TempDir()
	must(noderpc.Issue(ca, identities, noderpc.RoleGateway, "g"))
	for _, name := range names {
		must(noderpc.Issue(ca, identities, noderpc.RoleNode, name))
		id, err := noderpc.ReadIdentity(identities, noderpc.RoleNode)
		must(err)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(err)
		address := ln.Addr().String()
		credentials, err := noderpc.NewCredentials(id)
		must(err)
		secured := credentials.Secure(ln, nil)
		var memory int64 // unknown
		if name == "small" {
			memory = 1 << 30
		}
		k := &testNode{
			id: cluster.NodeID(name), ln: ln, links: make(chan *noderpc.Link, 100),
			sessions: map[string]string{}, volumes: map[string]bool{}, parked: &parked,
		}
		k.keeper, err = cluster.NewLeaseHolder(dir, cluster.LeaseHolderOptions{
			Node: k.id, Instance: name, Lease: 30 * time.Second, Names: dir,
			Info: func() cluster.NodeInfo {
				return cluster.NodeInfo{
					Address: address, Most: 100, Image: "image-of-" + name, Memory: memory,
					Leaving: k.leaving.Load(),
				}
			},
		})
		must(err)
		k.keeper.Heartbeat(ctx)
		beating, end := context.WithCancel(ctx)
		var beats sync.WaitGroup
		beats.Go(func() { k.keeper.Run(beating) })
		work.Go(beats.Wait)
		k.silence = func() { end(); beats.Wait() }
		work.Go(func() { _ = noderpc.Serve(ctx, secured, k, nil) })
		all = append(all, k)
	}
	gateway, err := noderpc.ReadIdentity(identities, noderpc.RoleGateway)
	must(err)
	credentials, err := noderpc.NewCredentials(gateway)
	must(err)
	seen := see(dir)
	placer := cluster.NewPlacer(seen, cluster.PlacerOptions{Lease: 30 * time.Second})
	var f *Router
	resolver := cluster.NewResolver(seen, placer, func(e cluster.Event) { f.Moved(e) })
	f = New(Options{Resolver: resolver, Placer: placer, Names: dir, Dial: credentials.Dial})
	work.Go(func() { resolver.Run(ctx) })
	t.Cleanup(func() { _ = f.Close() })
	return f, all
}

var alice = noderpc.Principal{Tenant: "alice"}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (k *testNode) make(t testing.TB) string {
	t.Helper()
	s, err := k.carry(alice, protocol.Request{Op: protocol.OpSessionCreate})
	if err != nil {
		t.Fatal(err)
	}
	return s.(protocol.Session).ID
}

func (l *Link) roundTrip(t testing.TB, id uint64, op string, ch uint32, params any) protocol.Reply {
	t.Helper()
	raw, _ := json.Marshal(params)
	body, _ := json.Marshal(protocol.Request{ID: id, Op: op, Ch: ch, Params: raw})
	if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
		t.Fatal(err)
	}
	return l.awaitReply(t)
}

func (l *Link) awaitReply(t testing.TB) protocol.Reply {
	t.Helper()
	f, err := l.Next()
	if err != nil {
		t.Fatal(err)
	}
	var r protocol.Reply
	if err := json.Unmarshal(f.Body, &r); err != nil || f.Type != frame.Control {
		t.Fatalf("no reply: %+v %v", f, err)
	}
	return r
}

// TestLinkSpeaksToMany: one link attaches channels of sessions on two nodes. Frames that the client
// sends to a channel number reach its node.
func TestLinkSpeaksToMany(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	l, err := f.Open(within(t), alice)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for i, k := range all {
		r := l.roundTrip(t, uint64(i+1), protocol.OpAttach, uint32(i+1), protocol.Attach{
			Session: k.make(t), Channel: "k1",
		})
		if r.Error != nil || !strings.Contains(string(r.Result), string(k.id)) {
			t.Fatalf("attached to %s: %+v", k.id, r)
		}
	}
	for i, k := range all {
		if err := l.Send(frame.Frame{
			Type: frame.Input, Channel: uint32(i + 1), Body: []byte("x"),
		}); err != nil {
			t.Fatal(err)
		}
		got, err := l.Next()
		if err != nil || string(got.Body) != string(k.id)+":x" {
			t.Fatalf("of %s: %q %v", k.id, got.Body, err)
		}
	}
	if r := l.roundTrip(
		t, 9, protocol.OpExecute, 7, struct{}{},
	); r.ID != 9 || r.Error == nil || r.Error.Field != "ch" {
		t.Errorf("of a number that is not attached: %+v", r)
	}
	if r := l.roundTrip(t, 10, protocol.OpSessionGet, 0, protocol.SessionRef{
		Session: "s_nobodys",
	}); r.Error == nil || r.Error.Kind != fault.NotFound {
		t.Errorf("of an unknown session: %+v", r)
	}
	if r := l.roundTrip(t, 11, protocol.OpSessionCreate, 0, struct{}{}); r.ID != 11 ||
		r.Error != nil {
		t.Errorf("a new session: %+v", r)
	}
	if r := l.roundTrip(t, 12, protocol.OpTenantList, 0, struct{}{}); strings.Count(
		string(r.Result), `"alice"`,
	) != 1 || !strings.Contains(string(r.Result), `"name":"b"`) {
		t.Errorf("tenants of all nodes: %s %+v", r.Result, r)
	}
	// A node that ends its link ends the client's link, with a kind that asks for a reconnection.
	for len(all[0].links) > 0 {
		_ = (<-all[0].links).Close()
	}
	if _, err := l.Next(); err == nil || fault.Is(err, fault.Canceled) {
		t.Errorf("after the node's end: %v", err)
	}
	if err := l.Send(frame.Frame{Type: frame.Input, Channel: 2}); err == nil {
		t.Error("a link that has ended takes frames")
	}
}

// TestLateSessionsLetOthersPass: requests for a session whose node cannot be reached delay no input
// for a session of another node. They are answered when the node is given up.
func TestLateSessionsLetOthersPass(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	l, err := f.Open(within(t), alice)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	lost := all[1].make(t)
	if r := l.roundTrip(t, 1, protocol.OpAttach, 1, protocol.Attach{
		Session: all[0].make(t), Channel: "k1",
	}); r.Error != nil {
		t.Fatalf("%+v", r)
	}
	if err := all[1].ln.Close(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	params, _ := json.Marshal(protocol.Attach{Session: lost, Channel: "k1"})
	for id := uint64(2); id < 5; id++ {
		body, _ := json.Marshal(protocol.Request{
			ID: id, Op: protocol.OpAttach, Ch: uint32(id), Params: params,
		})
		if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
			t.Fatal(err)
		}
		clear(body) // the caller may use it again
	}
	if err := l.Send(frame.Frame{Type: frame.Input, Channel: 1, Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	got, err := l.Next()
	if err != nil || string(got.Body) != "a:x" {
		t.Fatalf("before the answers of the other session: %q %v", got.Body, err)
	}
	if took := time.Since(begin); took > noderpc.ConnectTimeout {
		t.Errorf("the input of the reachable node took %s", took)
	}
	for range 3 {
		if r := l.awaitReply(t); r.Error == nil || r.Error.Kind != fault.Unavailable {
			t.Errorf("the session that cannot be reached: %+v", r)
		}
	}
	if r := l.roundTrip(t, 9, protocol.OpExecute, 3, struct{}{}); r.Error == nil ||
		r.Error.Field != "ch" {
		t.Errorf("of a number that was not attached: %+v", r)
	}
}

// TestLateSessionIsServed: frames for a session that is adopted slowly arrive in their order.
func TestLateSessionIsServed(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	l, err := f.Open(within(t), alice)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	id := all[1].make(t)
	all[1].mu.Lock() // the node answers nothing
	if err := all[1].keeper.Release(within(t), cluster.SessionID(id),
		cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	for _, k := range all[:1] {
		k.mu.Lock()
	}
	(*all[0].parked)[id] = alice.Tenant
	params, _ := json.Marshal(protocol.Attach{Session: id, Channel: "k1"})
	body, _ := json.Marshal(protocol.Request{ID: 1, Op: protocol.OpAttach, Ch: 5, Params: params})
	if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"1", "2", "3"} {
		if err := l.Send(frame.Frame{
			Type: frame.Input, Channel: 5, Body: []byte(text),
		}); err != nil {
			t.Fatal(err)
		}
	}
	all[0].mu.Unlock()
	all[1].mu.Unlock()
	if r := l.awaitReply(t); r.ID != 1 || r.Error != nil {
		t.Fatalf("%+v", r)
	}
	for _, text := range []string{"1", "2", "3"} {
		got, err := l.Next()
		if err != nil || !strings.HasSuffix(string(got.Body), ":"+text) {
			t.Fatalf("input %s: %q %v", text, got.Body, err)
		}
	}
	if r := l.roundTrip(t, 2, protocol.OpSessionGet, 0, protocol.SessionRef{
		Session: id,
	}); r.Error != nil {
		t.Errorf("a later request: %+v", r)
	}
}

// TestLinkFollowsTheOwner: another node takes over a session of a node that is cut off and does not
// end its links. The links of its clients end, and those of other sessions do not.
func TestLinkFollowsTheOwner(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	a, b := all[0], all[1]
	moves, stays := a.make(t), a.make(t)
	open := func(id string) *Link {
		t.Helper()
		l, err := f.Open(within(t), alice)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if r := l.roundTrip(t, 1, protocol.OpAttach, 1, protocol.Attach{
			Session: id, Channel: "k1",
		}); r.Error != nil {
			t.Fatalf("%+v", r)
		}
		return l
	}
	ends, other := open(moves), open(stays)
	if err := a.keeper.Release(within(t), cluster.SessionID(moves),
		cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.keeper.Own(within(t), cluster.SessionID(moves), cluster.ClaimTakeOver, 0,
		time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := ends.Next(); !fault.Is(err, fault.Restarting) {
		t.Errorf("the link of the session that has moved: %v", err)
	}
	if r := other.roundTrip(t, 2, protocol.OpSessionGet, 0, protocol.SessionRef{
		Session: stays,
	}); r.Error != nil {
		t.Errorf("the link of the other session: %+v", r)
	}
	f.uses.mu.Lock()
	defer f.uses.mu.Unlock()
	if len(f.uses.of) != 1 {
		t.Errorf("the index has %v", f.uses.of)
	}
}

// TestLinkHoldsBack: a client that does not read slows the node down, and gets everything in order.
func TestLinkHoldsBack(t *testing.T) {
	f, all := startNodes(t, "a")
	l, err := f.Open(within(t), alice)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	l.roundTrip(t, 1, protocol.OpAttach, 1, protocol.Attach{Session: all[0].make(t), Channel: "k1"})
	const frames, size = 200, 64 << 10
	sent := make(chan error, 1)
	go func() {
		for i := range frames {
			if err := l.Send(frame.Frame{
				Type: frame.Input, Channel: 1, Body: slices.Repeat([]byte{byte(i)}, size),
			}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	select {
	case <-sent:
		t.Fatalf("%d MiB were taken though nobody reads", frames*size>>20)
	case <-time.After(200 * time.Millisecond):
	}
	for i := range frames {
		got, err := l.Next()
		if err != nil || len(got.Body) != size+2 || got.Body[2] != byte(i) ||
			got.Body[size+1] != byte(i) {
			t.Fatalf("frame %d: %d bytes, %v", i, len(got.Body), err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// TestCalls: requests about one session reach its node, a released session is adopted
// once, and lists cover all nodes.
func TestCalls(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	var ids []string
	for _, k := range all {
		id := k.make(t)
		ids = append(ids, id)
		var at struct{ Node string }
		if err := f.Call(ctx, alice, protocol.OpSessionGet, protocol.SessionRef{
			Session: id,
		}, &at); err != nil || at.Node != string(k.id) {
			t.Errorf("%s was asked of %q: %v", id, at.Node, err)
		}
		if err := f.Call(ctx, noderpc.Principal{
			Tenant: "bob",
		}, protocol.OpSessionGet, protocol.SessionRef{Session: id}, nil); !fault.Is(err,
			fault.NotFound) {
			t.Errorf("of another tenant's: %v", err)
		}
	}
	var list protocol.SessionList
	if err := f.Call(
		ctx, alice, protocol.OpSessionList, struct{}{}, &list,
	); err != nil || len(list.Sessions) != 2 {
		t.Errorf("listed %+v: %v", list, err)
	}
	var status protocol.NodeStatus
	if err := f.Call(
		ctx, alice, protocol.OpStatus, struct{}{}, &status,
	); err != nil || status.Sessions != 2 || status.Counters["n"] != 2 {
		t.Errorf("status %+v: %v", status, err)
	}
	var tenants protocol.TenantList
	want := []protocol.Tenant{
		{Name: "a", Use: protocol.Use{Sessions: 1}},
		{Name: "alice", Keys: 3, Use: protocol.Use{Sessions: 2, CPUs: 1, DiskBytes: 14}},
		{Name: "b", Use: protocol.Use{Sessions: 1}},
	}
	if err := f.Call(
		ctx, alice, protocol.OpTenantList, struct{}{}, &tenants,
	); err != nil || !reflect.DeepEqual(tenants.Tenants, want) {
		t.Errorf("tenants %+v: %v", tenants, err)
	}
	// a's session is parked, and many clients request it at the same time.
	a := all[0]
	a.mu.Lock()
	(*a.parked)[ids[0]] = "alice"
	delete(a.sessions, ids[0])
	a.mu.Unlock()
	if err := a.keeper.Release(ctx, cluster.SessionID(ids[0]), cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	at := make([]string, 8)
	for i := range at {
		wg.Go(func() {
			var got struct{ Node string }
			for ctx.Err() == nil {
				err := f.Call(ctx, alice, protocol.OpSessionGet,
					protocol.SessionRef{Session: ids[0]}, &got)
				if err == nil {
					break
				}
				if !fault.Is(err, fault.Unavailable) {
					t.Error(err)
					break
				}
			}
			at[i] = got.Node
		})
	}
	wg.Wait()
	for _, n := range at {
		if n == "" || n != at[0] {
			t.Errorf("it was found at %v", at)
			break
		}
	}
	// A node that does not answer makes a list unavailable.
	if err := f.nodes["b"].client.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Log(err)
	}
	if err := f.Call(
		ctx, alice, protocol.OpSessionList, struct{}{}, &list,
	); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a list without b: %v", err)
	}
}

// TestMovesAreNeverUnknown: a gateway reads the record of a parked session, and another node adopts
// the session before the gateway's node looks into the store. Its user is sent to the new owner, and
// gets no NotFound while the directory has a record.
func TestMovesAreNeverUnknown(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	a, b := all[0], all[1]
	id := a.make(t)
	bob := noderpc.Principal{Tenant: "bob"}
	park := func(tenant string) {
		t.Helper()
		for _, k := range all {
			k.mu.Lock()
			delete(k.sessions, id)
			delete(*k.parked, id)
			k.mu.Unlock()
		}
		if tenant != "" {
			(*a.parked)[id] = tenant
		}
	}
	park("")
	if err := a.keeper.Release(ctx, cluster.SessionID(id), cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	// The record says that the session is parked, and the store does not have it any more.
	ref := protocol.SessionRef{Session: id}
	var got struct{ Node string }
	for _, who := range []noderpc.Principal{alice, bob} {
		if err := f.Call(ctx, who, protocol.OpSessionGet, ref, &got); !fault.Is(err,
			fault.Unavailable) {
			t.Errorf("%s, while it moves: %v", who.Tenant, err)
		}
	}
	park(alice.Tenant)
	if err := f.Call(ctx, bob, protocol.OpSessionGet, ref, &got); !fault.Is(err, fault.NotFound) {
		t.Errorf("of another tenant's parked session: %v", err)
	}
	park("")
	// b finishes its adoption while the gateway asks.
	adopted := make(chan error, 1)
	go func() {
		for { // the first request of the gateway reaches a node
			for _, k := range all {
				k.mu.Lock()
				asked := slices.Contains(k.requests, protocol.OpAdopt)
				k.mu.Unlock()
				if asked {
					b.mu.Lock()
					defer b.mu.Unlock()
					_, err := b.keeper.Own(ctx, cluster.SessionID(id), cluster.ClaimTakeOver, 0,
						time.Now().Add(time.Hour))
					b.sessions[id] = alice.Tenant
					adopted <- err
					return
				}
			}
		}
	}()
	for _, k := range all {
		k.mu.Lock()
		k.requests = nil
		k.mu.Unlock()
	}
	if err := f.Call(ctx, alice, protocol.OpSessionGet, ref, &got); err != nil || got.Node != "b" {
		t.Errorf("found at %q: %v", got.Node, err)
	}
	if err := <-adopted; err != nil {
		t.Fatal(err)
	}
	if err := f.Call(ctx, alice, protocol.OpSessionGet, protocol.SessionRef{
		Session: "s_none",
	}, &got); !fault.Is(err, fault.NotFound) || fault.PublicOf(err).Field != "session" {
		t.Errorf("of an unknown session: %v", err)
	}
}

// TestEndedHasItsReason: while the node of an ended session runs, it answers. After that the gateway
// answers with the reason, each time.
func TestEndedHasItsReason(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	id := all[0].make(t)
	all[0].silence()
	all[0].keeper.End(ctx, cluster.SessionID(id), "memory", time.Hour)
	ref := protocol.SessionRef{Session: id}
	for range 8 {
		var got struct{ Node string }
		if err := f.Call(ctx, alice, protocol.OpSessionGet, ref, &got); err != nil ||
			got.Node != "a" {
			t.Fatalf("asked of %q: %v", got.Node, err)
		}
	}
	if err := all[0].keeper.EndLease(ctx); err != nil {
		t.Fatal(err)
	}
	f.resolver.Drop(cluster.SessionID(id))
	for range 8 {
		err := f.Call(ctx, alice, protocol.OpSessionGet, ref, nil)
		if !fault.Is(err, fault.SandboxLost) || !strings.Contains(err.Error(), "memory") {
			t.Fatalf("without its node: %v", err)
		}
	}
}

// TestListsHaveWhatMoves: a session is parked after the router has read the list of parked sessions
// and before it asks the session's node. The list has the session.
func TestListsHaveWhatMoves(t *testing.T) {
	f, all := startNodes(t, "a")
	a := all[0]
	id := a.make(t)
	a.onParked = func() { // a's lock is held
		(*a.parked)[id] = alice.Tenant
		delete(a.sessions, id)
	}
	var list protocol.SessionList
	if err := f.Call(within(t), alice, protocol.OpSessionList, struct{}{},
		&list); err != nil || len(list.Sessions) != 1 || list.Sessions[0].ID != id {
		t.Errorf("listed %+v: %v", list, err)
	}
}

// TestListsAfterALeave: a node that has left in order makes no list unavailable, not even before its
// lease would have ended.
func TestListsAfterALeave(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	all[0].make(t)
	var list protocol.SessionList
	if err := f.Call(ctx, alice, protocol.OpSessionList, struct{}{}, &list); err != nil {
		t.Fatal(err)
	}
	all[1].silence()
	if err := all[1].keeper.EndLease(ctx); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the gateway lists one node", func() bool {
		nodes, err := f.placer.Nodes(ctx)
		return err == nil && len(nodes) == 1
	})
	_ = all[1].ln.Close()
	_ = f.nodes["b"].client.Close()
	for range 3 {
		if err := f.Call(ctx, alice, protocol.OpSessionList, struct{}{}, &list); err != nil ||
			len(list.Sessions) != 1 {
			t.Fatalf("listed %+v: %v", list, err)
		}
	}
}

// lapsing is a directory in which a test can end the leases of nodes.
type lapsing struct {
	cluster.Lookup
	gone sync.Map // lapsed nodes, by cluster.NodeID
}

func (l *lapsing) Nodes(ctx context.Context) ([]cluster.Node, error) {
	all, err := l.Lookup.Nodes(ctx)
	return slices.DeleteFunc(all, func(n cluster.Node) bool {
		_, is := l.gone.Load(n.ID)
		return is
	}), err
}

func (l *lapsing) Absent(context.Context) (all []cluster.NodeID, err error) {
	l.gone.Range(func(id, _ any) bool {
		all = append(all, id.(cluster.NodeID))
		return true
	})
	return all, nil
}

// TestListsHaveLapsed: after an outage of the directory the nodes renew their leases
// one after another, and the sessions of the last one stay listed meanwhile. Nobody
// waits for a lapsed node that cannot be reached: the list names it.
func TestListsHaveLapsed(t *testing.T) {
	var dir lapsing
	f, all := startNodesSeen(
		t, func(l cluster.Lookup) cluster.Lookup { dir.Lookup = l; return &dir }, "a", "b",
	)
	ctx := within(t)
	ids := []string{all[0].make(t), all[1].make(t)}
	slices.Sort(ids)
	var missing []string
	listed := func() []string {
		t.Helper()
		var list protocol.SessionList
		defer func() { missing = list.Missing }()
		if err := f.Call(ctx, alice, protocol.OpSessionList, struct{}{}, &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range list.Sessions {
			got = append(got, s.ID)
		}
		slices.Sort(got)
		return got
	}
	// seen waits until the directory has had n more requests.
	seen := func(n int) {
		t.Helper()
		testenv.Eventually(t, "the number of nodes", func() bool {
			nodes, err := f.placer.Nodes(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return len(nodes) == n
		})
	}
	if got := listed(); !slices.Equal(got, ids) {
		t.Fatalf("listed %v, not %v", got, ids)
	}
	dir.gone.Store(all[1].id, true)
	seen(1)
	if got := listed(); !slices.Equal(got, ids) {
		t.Errorf("behind b's lease: %v, not %v", got, ids)
	}
	if len(missing) != 0 {
		t.Errorf("b answers, and is missing: %v", missing)
	}
	// Another node may have taken it over.
	all[0].mu.Lock()
	all[0].sessions[ids[1]] = alice.Tenant
	all[0].mu.Unlock()
	if got := listed(); !slices.Equal(got, ids) {
		t.Errorf("of one session on two nodes: %v, not %v", got, ids)
	}
	dir.gone.Delete(all[1].id)
	seen(2)
	if got := listed(); !slices.Equal(got, ids) {
		t.Errorf("with b's new lease: %v, not %v", got, ids)
	}
	dir.gone.Store(all[1].id, true)
	seen(1)
	_ = f.nodes["b"].client.Close()
	if got := listed(); !slices.Equal(got, ids) {
		t.Errorf("without b: %v, not %v", got, ids)
	}
	if !slices.Equal(missing, []string{"b"}) {
		t.Errorf("without b these are missing: %v", missing)
	}
	if left := f.placer.Lapsed(); len(left) > 0 {
		t.Errorf("it is asked again: %v", left)
	}
}

// TestNewSessionsGoElsewhere: a node that has just died, and that the directory still
// lists, makes no new session fail.
func TestNewSessionsGoElsewhere(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	if err := all[1].ln.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		var s protocol.Session
		if err := f.Call(
			ctx, alice, protocol.OpSessionCreate, protocol.SessionCreate{}, &s,
		); err != nil || !strings.HasPrefix(s.ID, "s_a_") {
			t.Fatalf("session %d: %q %v", i, s.ID, err)
		}
	}
}

// TestMetricsAreLabelled: each series has the name of its node, and each family has
// one description.
func TestMetricsAreLabelled(t *testing.T) {
	f, _ := startNodes(t, "a", "b")
	var m protocol.Metrics
	if err := f.Call(within(t), alice, protocol.OpMetrics, struct{}{}, &m); err != nil {
		t.Fatal(err)
	}
	want := "# HELP a_total Some.\n# TYPE a_total counter\na_total{node=\"a\"} 1\na_total{node=\"b\"} 1\n" +
		"# HELP b Others.\n# TYPE b gauge\nb{node=\"a\",kind=\"x\"} 2\nb{node=\"b\",kind=\"x\"} 2\n"
	if m.Text != want {
		t.Errorf("got\n%s\nwant\n%s", m.Text, want)
	}
}

// TestMetricsNameMissingNodes: the metrics are those of the nodes that answer, and name the nodes that
// do not. Such a node refuses connections, accepts them and is silent, or hangs.
func TestMetricsNameMissingNodes(t *testing.T) {
	for what, fail := range map[string]func(b *testNode) (end func()){
		"refuses": func(b *testNode) func() { _ = b.ln.Close(); return func() {} },
		"silent": func(b *testNode) func() {
			_ = b.ln.Close()
			// The kernel accepts connections, and nobody reads them.
			ln, err := net.Listen("tcp", b.ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = ln.Close() }
		},
		"hangs": func(b *testNode) func() { b.mu.Lock(); return b.mu.Unlock },
	} {
		t.Run(what, func(t *testing.T) {
			f, all := startNodes(t, "a", "b")
			defer fail(all[1])()
			began := time.Now()
			var m protocol.Metrics
			if err := f.Call(within(t), alice, protocol.OpMetrics, struct{}{}, &m); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 40*time.Second { // the limit is two seconds
				t.Errorf("the metrics took %s", took)
			}
			if want := map[string]bool{"a": true, "b": false}; !maps.Equal(m.Nodes, want) ||
				!strings.Contains(m.Text, `node="a"`) || strings.Contains(m.Text, `node="b"`) {
				t.Errorf("got %v\n%s", m.Nodes, m.Text)
			}
		})
	}
}

// BenchmarkHop is a round trip over a link to a node behind mutual TLS.
func BenchmarkHop(b *testing.B) {
	f, all := startNodes(b, "a")
	l, err := f.Open(within(b), alice)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	l.roundTrip(b, 1, protocol.OpAttach, 1, protocol.Attach{Session: all[0].make(b), Channel: "k1"})
	for b.Loop() {
		if err := l.Send(frame.Frame{
			Type: frame.Input, Channel: 1,
			Body: []byte("x"),
		}); err != nil {
			b.Fatal(err)
		}
		if _, err := l.Next(); err != nil {
			b.Fatal(err)
		}
	}
}
