package control

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// answers lets the node answer an operation with a value or an error.
func (g *rig) answers(op string, reply any, err error) {
	g.node.answer[op] = func(noderpc.Principal, any) (any, error) { return reply, err }
}

func TestFork(t *testing.T) {
	g := newRig(t)
	id := g.create(`{"templateID":"mine","metadata":{"a":"1"},"network":{"allowPublicTraffic":false}}`)
	g.node.answer[protocol.OpFork] = func(who noderpc.Principal, params any) (any, error) {
		p := params.(protocol.SessionFork)
		if slices.Contains(who.Scopes, string(protocol.ScopeManage)) || p.Session != "s_x1" ||
			p.LifetimeSeconds != 40 || p.Labels[e2bname.LabelTemplate] != "mine" ||
			p.Labels[e2bname.LabelOptions] != `{"private_ports":true}` {
			t.Errorf("%+v", p)
		}
		var f protocol.Forks
		for i := range p.Count {
			one := protocol.Session{ID: fmt.Sprint("s_f", i), Labels: p.Labels}
			f.Sessions = append(f.Sessions, one)
		}
		return f, nil
	}
	var all []forkBody
	g.want(201, "alice", "POST", "/sandboxes/"+id+"/fork", `{"timeout":40,"count":2}`, &all)
	if len(all) != 2 || all[1].Sandbox.ID != "if1" || all[1].Sandbox.Envd != "access-s_f1" ||
		all[0].Sandbox.Template != "mine" {
		t.Errorf("%+v", all)
	}
	for _, body := range []string{`{"count":0}`, `{"count":33}`, `{"timeout":0}`, `{"x":1}`} {
		field := strings.Trim(strings.Split(body, ":")[0], `{"`)
		g.refuse(400, field, "alice", "POST", "/sandboxes/"+id+"/fork", body)
	}
	g.refuse(404, "no such sandbox", "bob", "POST", "/sandboxes/"+id+"/fork", "")
}

func TestSnapshots(t *testing.T) {
	g := newRig(t)
	id := g.create(`{"templateID":"base"}`)
	g.answers(protocol.OpSnapshot, protocol.Snapshot{ID: "n_1", Name: "kept"}, nil)
	var n snapshotBody
	g.want(201, "alice", "POST", "/sandboxes/"+id+"/snapshots", `{"name":"kept"}`, &n)
	if n.ID != "n_1" || len(n.Names) != 1 || n.Names[0] != "kept" {
		t.Errorf("%+v", n)
	}
	g.refuse(404, "no such sandbox", "bob", "POST", "/sandboxes/"+id+"/snapshots", "{}")
	g.answers(protocol.OpSnapshotList, protocol.SnapshotList{Snapshots: []protocol.Snapshot{
		{ID: "n_3", Session: "s_b"}, {ID: "n_2", Session: "s_a", Name: "two"}, {ID: "n_1", Session: "s_a"},
	}}, nil)
	for query, want := range map[string]string{
		"":                        "n_3 n_2 n_1",
		"sandboxID=ia":            "n_2 n_1",
		"name=two:default":        "n_2",
		"limit=2":                 "n_3 n_2 next n_2",
		"limit=2&nextToken=n_2":   "n_1",
		"sandboxID=ia&name=other": "",
	} {
		var page []snapshotBody
		h := g.want(200, "alice", "GET", "/snapshots?"+query, "", &page)
		var got []string
		for _, n := range page {
			got = append(got, n.ID)
		}
		if token := h.Get("X-Next-Token"); token != "" {
			got = append(got, "next", token)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
	g.refuse(400, "nextToken", "alice", "GET", "/snapshots?nextToken=x", "")
	g.refuse(400, "limit", "alice", "GET", "/snapshots?limit=-1", "")
	g.refuse(400, "sandboxID", "alice", "GET", "/snapshots?sandboxID=s_a", "")
	g.answers(protocol.OpSnapshotDel, nil, nil)
	g.took()
	g.want(204, "alice", "DELETE", "/templates/n_1", "", nil)
	if calls := g.took(); !slices.Equal(calls, []string{protocol.OpSnapshotDel}) {
		t.Errorf("%v", calls)
	}
}

func TestTemplates(t *testing.T) {
	g := newRig(t)
	mine := protocol.Template{
		Name: "mine", State: "ready", CreatedMS: 1000,
		Spec: protocol.TemplateSpec{Limits: protocol.Limits{CPUs: 2, MemoryBytes: 1 << 30}},
	}
	missing := fault.New(fault.NotFound, "x", "there is no such template")
	g.answers(protocol.OpTemplateList, protocol.TemplateList{
		Templates: []protocol.Template{mine},
	}, nil)
	g.node.answer[protocol.OpTemplateGet] = func(_ noderpc.Principal, params any) (any, error) {
		if params.(protocol.TemplateRef).Name != "mine" {
			return nil, missing
		}
		return mine, nil
	}
	var all []map[string]any
	g.want(200, "alice", "GET", "/v2/templates", "", &all)
	if len(all) != 1 || all[0]["templateID"] != "mine" || all[0]["buildStatus"] != "ready" ||
		all[0]["cpuCount"] != 2.0 || all[0]["memoryMB"] != 1024.0 {
		t.Errorf("%v", all)
	}
	var one map[string]any
	g.want(200, "alice", "GET", "/templates/mine", "", &one)
	build := one["builds"].([]any)[0].(map[string]any)
	if build["buildID"] != all[0]["buildID"] || len(build["buildID"].(string)) != 36 {
		t.Errorf("%v", one)
	}
	var alias aliasBody
	g.want(200, "alice", "GET", "/templates/aliases/mine", "", &alias)
	if alias.ID != "mine" || alias.Public {
		t.Errorf("%+v", alias)
	}
	g.want(200, "alice", "GET", "/templates/aliases/base", "", &alias)
	if !alias.Public {
		t.Errorf("%+v", alias)
	}
	g.refuse(404, "no such template", "alice", "GET", "/templates/aliases/other", "")
	g.want(200, "alice", "GET", "/templates/aliases/mine%3Adefault", "", &alias)
	var tags []tagBody
	g.want(200, "alice", "GET", "/templates/mine/tags", "", &tags)
	if len(tags) != 1 || tags[0].Tag != "default" {
		t.Errorf("%+v", tags)
	}
	g.want(200, "alice", "PATCH", "/v2/templates/mine", `{"public":false}`, nil)
	g.refuse(501, "public", "alice", "PATCH", "/templates/mine", `{"public":true}`)
	g.refuse(400, "x", "alice", "PATCH", "/templates/mine", `{"x":true}`)
	g.refuse(403, "server", "alice", "DELETE", "/templates/base", "")
	g.answers(protocol.OpTemplateDelete, nil, missing)
	g.answers(protocol.OpSnapshotDel, nil, fault.New(fault.NotFound, "x", "there is no such snapshot"))
	g.refuse(404, "no such snapshot", "alice", "DELETE", "/templates/other", "")
	g.answers(protocol.OpTemplateDelete, nil, nil)
	g.want(204, "alice", "DELETE", "/templates/mine", "", nil)
}

func TestMetrics(t *testing.T) {
	g := newRig(t)
	id := g.create(`{"templateID":"base"}`)
	g.last().Usage = &protocol.Usage{MemoryBytes: 100 << 20, CPUMS: 1}
	begin := time.Now().Add(-time.Hour).Truncate(time.Minute)
	g.answers(protocol.OpSessionSeries, protocol.Series{Points: []protocol.SeriesPoint{
		{Time: begin, CPUSeconds: 45, MemoryBytes: 7},
	}}, nil)
	var all []metricBody
	g.want(200, "alice", "GET", "/sandboxes/"+id+"/metrics", "", &all)
	if len(all) != 2 || all[0].CPUPct != 50 || all[0].MemUsed != 7 || all[0].Unix != begin.Unix() ||
		all[1].MemUsed != 100<<20 || all[1].MemTotal != 512<<20 || all[1].DiskTotal != 1<<30 {
		t.Errorf("%+v", all)
	}
	g.want(200, "alice", "GET", fmt.Sprintf("/sandboxes/%s/metrics?start=%d&end=%d", id, begin.Unix(),
		begin.Unix()+1), "", &all)
	if len(all) != 1 {
		t.Errorf("%+v", all)
	}
	g.refuse(400, "start", "alice", "GET", "/sandboxes/"+id+"/metrics?start=x", "")
	g.refuse(404, "sandbox", "bob", "GET", "/sandboxes/"+id+"/metrics", "")
	var many struct{ Sandboxes map[string]metricBody }
	g.want(200, "alice", "GET", "/sandboxes/metrics?sandbox_ids="+id+",inone", "", &many)
	if len(many.Sandboxes) != 1 || many.Sandboxes[id].MemUsed == 0 {
		t.Errorf("%+v", many)
	}
	g.refuse(400, "sandbox_ids", "alice", "GET", "/sandboxes/metrics", "")
	g.refuse(400, "sandbox_ids", "alice", "GET", "/sandboxes/metrics?sandbox_ids=s_x", "")
}

func TestLogs(t *testing.T) {
	g := newRig(t)
	id := g.create(`{"templateID":"base"}`)
	g.answers(protocol.OpEventList, protocol.EventPage{Events: []protocol.FeedEvent{
		{ID: "1", Type: protocol.FeedSessionCreated, TimeMS: 1000},
		{ID: "2", Type: protocol.FeedPortOpened, TimeMS: 2000, Data: json.RawMessage(`{"port":80}`)},
		{ID: "3", Type: protocol.FeedSessionLost, TimeMS: 3000},
	}}, nil)
	var v1 logsBody
	g.want(200, "alice", "GET", "/sandboxes/"+id+"/logs?start=1500&limit=1", "", &v1)
	if len(v1.Logs) != 1 || v1.Logs[0].Line != `port.opened {"port":80}` ||
		v1.Logs[0].Timestamp != "1970-01-01T00:00:02.000Z" || len(v1.Entries) != 1 {
		t.Errorf("%+v", v1)
	}
	for query, want := range map[string]string{
		"":                              "1 2 3",
		"direction=backward":            "3 2 1",
		"direction=backward&limit=1":    "3",
		"direction=backward&cursor=200": "",
		"cursor=2000":                   "2 3",
		"level=error":                   "3",
		"search=port":                   "2",
	} {
		var v2 logs2Body
		g.want(200, "alice", "GET", "/v2/sandboxes/"+id+"/logs?"+query, "", &v2)
		var got []string
		for _, e := range v2.Logs {
			got = append(got, e.Fields["event"])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
	for _, field := range []string{"cursor", "limit", "direction", "level"} {
		g.refuse(400, field, "alice", "GET", "/v2/sandboxes/"+id+"/logs?"+field+"=x", "")
	}
	g.refuse(400, "start", "alice", "GET", "/sandboxes/"+id+"/logs?start=-1", "")
	g.refuse(404, "sandbox", "bob", "GET", "/sandboxes/"+id+"/logs", "")
}

func TestVolumes(t *testing.T) {
	g := newRig(t)
	g.answers(protocol.OpVolumeCreate, protocol.Volume{Name: "data"}, nil)
	g.answers(protocol.OpVolumeGet, protocol.Volume{Name: "data"}, nil)
	g.answers(protocol.OpVolumeList, protocol.VolumeList{
		Volumes: []protocol.Volume{{Name: "data"}},
	}, nil)
	g.answers(protocol.OpVolumeDelete, nil, nil)
	var v volumeToken
	g.want(201, "alice", "POST", "/volumes", `{"name":"data"}`, &v)
	if v.ID != "data" || v.Name != "data" || v.Token == "" {
		t.Errorf("%+v", v)
	}
	g.refuse(400, "size", "alice", "POST", "/volumes", `{"name":"data","size":1}`)
	g.want(200, "alice", "GET", "/volumes/data", "", &v)
	var all []volumeBody
	g.want(200, "alice", "GET", "/volumes", "", &all)
	if len(all) != 1 || all[0].ID != "data" {
		t.Errorf("%+v", all)
	}
	g.want(204, "alice", "DELETE", "/volumes/data", "", nil)
	g.answers(protocol.OpVolumeGet, nil, fault.New(fault.NotFound, "x", "there is no such volume"))
	g.refuse(404, "volume", "bob", "GET", "/volumes/data", "")
}

// TestSetNetwork changes the hosts that a sandbox may reach.
func TestSetNetwork(t *testing.T) {
	g := newRig(t)
	g.create(`{"templateID":"base"}`)
	for body, want := range map[string]string{
		`{}`: `true`, `{"allow_internet_access":false}`: `false`,
		`{"allowOut":["a.example"],"denyOut":["0.0.0.0/0"]}`: `{"allow":["a.example"]}`,
		`{"denyOut":["192.0.2.0/24"]}`:                       `{"deny":["192.0.2.0/24"]}`,
	} {
		var got []byte
		g.node.answer[protocol.OpSessionUpdate] = func(_ noderpc.Principal, p any) (any, error) {
			got, _ = json.Marshal(p.(protocol.SessionUpdate).Network)
			return protocol.Session{}, nil
		}
		g.want(204, "alice", "PUT", "/sandboxes/ix1/network", body, nil)
		if string(got) != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	g.refuse(400, "network.denyOut", "alice", "PUT", "/sandboxes/ix1/network",
		`{"denyOut":["a.example"]}`)
}

// TestRefusals lists what this server does not offer.
func TestRefusals(t *testing.T) {
	g := newRig(t)
	g.create(`{"templateID":"base"}`)
	for _, route := range []string{
		"GET /secrets", "POST /secrets", "GET /secrets/a", "POST /secrets/a", "DELETE /secrets/a",
	} {
		method, path, _ := strings.Cut(route, " ")
		g.refuse(501, "", "alice", method, path, "")
	}
}
