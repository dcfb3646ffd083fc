package kubernetes

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/internal/config"
)

// kubecheck builds the program that checks a folder against the types of k8s.io/api.
func kubecheck(t *testing.T) func(args ...string) (flows, wrong string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "kubecheck")
	// The first build of the types has no time limit.
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "../../tools", "build", "-o", bin,
		"./kubecheck").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func(args ...string) (string, string) {
		var flows, wrong bytes.Buffer
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Stdout, cmd.Stderr = &flows, &wrong
		if err := cmd.Run(); err != nil && wrong.Len() == 0 {
			t.Fatal(err)
		}
		return flows.String(), wrong.String()
	}
}

// secrets writes the output of deploy/kubernetes/secrets for dir to a file.
func secrets(t *testing.T, dir string) string {
	t.Helper()
	bin, err := e2e.Bin("sandgate")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("./secrets", dir)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.Bytes())
	}
	file := filepath.Join(t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// tree copies the manifests with changes. A change replaces one text in a file by another.
func tree(t *testing.T, changes ...[3]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{"base", "single", "cluster", "components"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(part)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range changes {
		path := filepath.Join(dir, c[0])
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(b), c[1], c[2], 1)
		if text == string(b) {
			t.Fatalf("%s has no %q", c[0], c[1])
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// with returns the cluster's manifests with components.
func with(t *testing.T, components ...string) string {
	t.Helper()
	list := "components:\n"
	for _, c := range components {
		list += "  - ../components/" + c + "\n"
	}
	return filepath.Join(tree(t, [3]string{"cluster/kustomization.yaml", "components: []\n", list}),
		"cluster")
}

// TestManifests renders each variant like kubectl and reads it like Kubernetes. Network
// policies allow the connections that are listed here and no others.
func TestManifests(t *testing.T) {
	check := kubecheck(t)
	made := secrets(t, filepath.Join(t.TempDir(), "cluster"))
	bucket := filepath.Join(t.TempDir(), "bucket.yaml")
	text := "apiVersion: v1\nkind: Secret\nmetadata:\n  name: sandgate-bucket\n  namespace: sandgate\ndata:\n  credentials: eA==\n"
	if err := os.WriteFile(bucket, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	single := []string{"ingress-nginx -> sandgate 8080", "monitoring -> sandgate 8080"}
	cluster := []string{
		"ingress-nginx -> sandgate-gateway 8080", "monitoring -> sandgate-gateway 8080",
		"sandgate-gateway -> names 53", "sandgate-gateway -> sandgate-node 9443",
		"sandgate-gateway -> sandgate-redis 6379",
		"sandgate-node -> names 53", "sandgate-node -> sandgate-redis 6379",
	}
	egress := []string{"sandgate-node -> internet 443", "sandgate-node -> internet6 443"}
	elsewhere := []string{
		"ingress-nginx -> sandgate-gateway 8080", "monitoring -> sandgate-gateway 8080",
		"sandgate-gateway -> names 53", "sandgate-gateway -> redis-elsewhere 6379",
		"sandgate-gateway -> sandgate-node 9443",
		"sandgate-node -> names 53", "sandgate-node -> redis-elsewhere 6379",
	}
	for what, c := range map[string]struct {
		args []string
		want []string
	}{
		"single":  {[]string{"single"}, single},
		"cluster": {[]string{"cluster", made}, cluster},
		"bucket": {
			[]string{with(t, "bucket"), made, bucket},
			append(slices.Clone(cluster), "sandgate-node -> bucket 9000"),
		},
		"folder, egress": {
			[]string{with(t, "folder", "egress"), made},
			append(slices.Clone(cluster), egress...),
		},
		"Redis of one's own": {[]string{with(t, "redis-elsewhere"), made}, elsewhere},
	} {
		flows, wrong := check(c.args...)
		slices.Sort(c.want)
		if want := strings.Join(c.want, "\n") + "\n"; wrong != "" || flows != want {
			t.Errorf("%s: %s\nis open:\n%s\nwant:\n%s", what, wrong, flows, want)
		}
	}
	for what, c := range map[string][4]string{
		"a field that is not there": {
			"single", "single/statefulset.yaml",
			"terminationGracePeriodSeconds", "terminationGraceSeconds",
		},
		"a selector of nothing": {
			"single", "single/policy.yaml",
			"app.kubernetes.io/name: sandgate", "app.kubernetes.io/name: other",
		},
		"a volume that is not": {
			"single", "single/statefulset.yaml",
			"- name: data\n              mountPath", "- name: date\n              mountPath",
		},
		"a secret that is not made": {
			"cluster", "cluster/node.yaml",
			"secretName: sandgate-nodes", "secretName: sandgate-node",
		},
		"a key that a secret has not": {
			"cluster", "cluster/redis.yaml", "- key: users.acl",
			"- key: users",
		},
		"a secret that all may read": {
			"cluster", "cluster/node.yaml", "defaultMode: 0400",
			"defaultMode: 0444",
		},
		"a config map that is not": {
			"cluster", "cluster/gateway.yaml",
			"configMap:\n            name: sandgate-gateway",
			"configMap:\n            name: gateway",
		},
		"a policy for a port of nobody": {
			"cluster", "cluster/policy.yaml", "- port: node",
			"- port: nodes",
		},
		"a budget for nobody": {
			"cluster", "cluster/gateway.yaml",
			"maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/name: sandgate\n      app.kubernetes.io/component: gateway", "maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/component: node",
		},
		"a variable before its value": {
			"cluster", "cluster/node.yaml", "[$(POD_IP)]",
			"[$(POD_IPS)]",
		},
		"a service's port of nobody": {
			"cluster", "cluster/redis.yaml", "targetPort: redis",
			"targetPort: http",
		},
		"pods spread by other labels": {
			"cluster", "cluster/gateway.yaml",
			"labelSelector:\n            matchLabels: *labels",
			"labelSelector:\n            matchLabels: {app: x}",
		},
	} {
		if _, wrong := check(filepath.Join(tree(t, [3]string(c[1:])), c[0]), made); wrong == "" {
			t.Errorf("%s is not found", what)
		}
	}
	// Two policies that allow too much are reported as open connections.
	for what, c := range map[string][3]string{
		"all names": {
			"cluster/policy.yaml",
			"          podSelector:\n            matchLabels:\n              k8s-app: kube-dns\n      ports:\n        - port: 53\n          protocol: UDP\n", "      ports:\n        - port: 443\n",
		},
		"no deny all": {
			"base/policy.yaml", "policyTypes: [Ingress, Egress]",
			"policyTypes: [Ingress]",
		},
	} {
		if flows, wrong := check(filepath.Join(tree(t, c), "cluster"),
			made); flows == strings.Join(cluster, "\n")+"\n" {
			t.Errorf("%s: the open connection is not reported: %s", what, wrong)
		}
	}
}

// TestSecretsAreKept runs the script twice. The second output is the same except for a new
// certificate of the gateways. The authority's key, which can issue these, is not in it.
func TestSecretsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	read := func(file string) map[string]string {
		all := map[string]string{}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for d := yaml.NewDecoder(f); ; {
			var s struct {
				Metadata struct{ Name string }
				Data     map[string]string
			}
			if d.Decode(&s) != nil {
				return all
			}
			for key, value := range s.Data {
				b, err := base64.StdEncoding.DecodeString(value)
				if err != nil || len(b) == 0 {
					t.Errorf("%s of %s: %v", key, s.Metadata.Name, err)
				}
				all[s.Metadata.Name+"/"+key] = string(b)
			}
		}
	}
	first, second := read(secrets(t, dir)), read(secrets(t, dir))
	if len(first) != 9 {
		t.Errorf("the script makes %d values", len(first))
	}
	for name, value := range first {
		anew := name == "sandgate-gateway/gateway.crt" || name == "sandgate-gateway/gateway.key"
		if (value != second[name]) != anew {
			t.Errorf("%s: changed %v", name, value != second[name])
		}
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range first {
		if strings.Contains(value, string(ca)) {
			t.Errorf("%s holds the authority's key", name)
		}
	}
	if strings.Contains(first["sandgate-redis/users.acl"], first["sandgate-redis/password"]) {
		t.Error("Redis gets the password itself")
	}
}

// TestPageNamesExist checks that everything that the page names exists.
func TestPageNamesExist(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range regexp.MustCompile(`deploy/kubernetes/([\w./-]*\w)`).FindAllSubmatch(page,
		-1) {
		named = append(named, string(m[1]))
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(page, -1) {
		if name := string(m[1]); strings.ContainsAny(name, "./") {
			named = append(named, name)
		} else {
			named = append(named, "components/"+name)
		}
	}
	for _, name := range named {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	all, _ := filepath.Glob("components/*")
	for _, c := range all {
		if !slices.Contains(named, c) {
			t.Errorf("the page has no %s", c)
		}
	}
	if len(named) < 12 {
		t.Errorf("the page names %q", named)
	}
}

// pods is the part of a workload that the tests use.
type pods struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Env []struct {
						Name, Value string
						From        any `yaml:"valueFrom"`
					}
					Ports []struct {
						Port int `yaml:"containerPort"`
					}
					Lifecycle struct {
						PreStop struct {
							Sleep struct{ Seconds int }
							Exec  struct{ Command []string }
						} `yaml:"preStop"`
					}
					Startup   probe `yaml:"startupProbe"`
					Liveness  probe `yaml:"livenessProbe"`
					Resources struct{ Limits struct{ Memory string } }
					Mounts    []mount `yaml:"volumeMounts"`
				}
			}
		}
	}
}

type probe struct {
	Grace int `yaml:"terminationGracePeriodSeconds"`
}

type mount struct {
	Path string `yaml:"mountPath"`
}

func workload(t *testing.T, file string) pods {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var p pods
	if err := yaml.NewDecoder(f).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSettingsLoad reads the settings with the program's own reader and the pods'
// variables, and checks that settings and pods agree.
func TestSettingsLoad(t *testing.T) {
	load := func(p pods, text []byte) *config.Config {
		t.Helper()
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		var env []string
		for _, e := range p.Spec.Template.Spec.Containers[0].Env {
			known := slices.ContainsFunc(config.Fields(config.Default()),
				func(f config.Field) bool { return f.Env == e.Name })
			if !known && !slices.Contains([]string{"POD_IP", "GOGC", "GODEBUG", "GOMEMLIMIT"},
				e.Name) {
				t.Errorf("%s: there is no setting %s", p.Metadata.Name, e.Name)
			}
			if e.From != nil { // the machine's name or the pod's address
				e.Value = map[string]string{
					"SANDGATE_CLUSTER_NODE": "ip-10-0-0-1.example.internal",
					"SANDGATE_CLUSTER_ZONE": "zone-a",
					"POD_IP":                "10.1.2.3",
				}[e.Name]
			}
			env = append(env, e.Name+"="+strings.ReplaceAll(e.Value, "$(POD_IP)", "10.1.2.3"))
		}
		c, err := config.Load(&config.Flags{File: file}, env)
		if err != nil {
			t.Fatalf("%s: %v", p.Metadata.Name, err)
		}
		if p.Kind != "StatefulSet" && c.Cluster.Zone != "zone-a" {
			t.Errorf("%s: its zone is %q", p.Metadata.Name, c.Cluster.Zone)
		}
		container := p.Spec.Template.Spec.Containers[0]
		var limit config.Size
		if _, err := fmt.Sscanf(container.Resources.Limits.Memory, "%dGi", &limit); err != nil {
			t.Fatal(err)
		}
		limit <<= 30
		if p.Kind != "Deployment" && (c.Sessions.Memory == 0 || c.Sessions.Memory > limit/10*9) {
			t.Errorf("%s: sandboxes may have %s, the container %s", p.Metadata.Name,
				c.Sessions.Memory, limit)
		}
		for what, path := range map[string]string{
			"cluster.dir":                 c.Cluster.Dir,
			"cluster.redis_password_file": c.Cluster.Password, "token_file": c.Token,
			"cluster.s3_credentials_file": c.Cluster.S3Credentials, "data_dir": c.DataDir,
			"run_dir": c.RunDir,
		} {
			mounted := slices.ContainsFunc(container.Mounts, func(m mount) bool {
				return path == m.Path || strings.HasPrefix(path, m.Path+"/")
			})
			if path != "" && !mounted &&
				!(p.Kind == "Deployment" && strings.HasSuffix(what, "_dir")) {
				// a gateway has no such folder
				t.Errorf("%s: nothing is mounted for %s at %s", p.Metadata.Name, what, path)
			}
		}
		return c
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// The time of a shutdown that moves no sessions, of gateway and node.
	const gateway, stop = 35, 110

	var object struct{ Data map[string]string }
	if err := yaml.Unmarshal(read("single/config.yaml"), &object); err != nil {
		t.Fatal(err)
	}
	p := workload(t, "single/statefulset.yaml")
	c := load(p, []byte(object.Data["config.yaml"]))
	if c.Listen != "0.0.0.0:8080" || !c.Insecure || len(c.Hosts) < 2 ||
		p.Spec.Template.Spec.Grace < stop {
		t.Errorf("%+v", c)
	}

	p = workload(t, "cluster/gateway.yaml")
	g := load(p, read("cluster/config/gateway.yaml"))
	if g.Listen != ":8080" || !g.Insecure || len(g.Hosts) < 2 ||
		p.Spec.Template.Spec.Containers[0].Ports[0].Port != 8080 {
		t.Errorf("%+v", g)
	}
	if before := p.Spec.Template.Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds; before == 0 ||
		p.Spec.Template.Spec.Grace < before+gateway {
		t.Errorf("a gateway has %d s to end, and waits %d of them first",
			p.Spec.Template.Spec.Grace, before)
	}
	p = workload(t, "cluster/node.yaml")
	n := load(p, read("cluster/config/node.yaml"))
	if n.Cluster.Listen != ":9443" || n.Cluster.Address != "[10.1.2.3]:9443" ||
		n.Cluster.Node == "" || p.Spec.Template.Spec.Containers[0].Ports[0].Port != 9443 {
		t.Errorf("%+v", n.Cluster)
	}
	if least := int(time.Duration(n.Cluster.Drain)/time.Second) +
		stop; p.Spec.Template.Spec.Grace < least {
		t.Errorf("a node has %d s to end, and may need %d", p.Spec.Template.Spec.Grace, least)
	}
	checkScaledNodes(t, n, time.Duration(n.Cluster.Drain)+stop*time.Second)
	stores := 0
	patches, _ := filepath.Glob("components/*/node.yaml")
	for _, file := range patches {
		both, more := workload(t, "cluster/node.yaml"), workload(t, file)
		to, from := &both.Spec.Template.Spec.Containers[0], more.Spec.Template.Spec.Containers[0]
		to.Env, to.Mounts = append(to.Env, from.Env...), append(to.Mounts, from.Mounts...)
		if load(both, read("cluster/config/node.yaml")).Cluster.Blobs != "" {
			stores++
		}
	}
	if stores != 2 {
		t.Errorf("%d of %q give the cluster a blob store", stores, patches)
	}
	if g.Cluster.Redis != n.Cluster.Redis || g.Cluster.User != n.Cluster.User ||
		g.Cluster.Name != n.Cluster.Name || g.Cluster.Redis != "redis://sandgate-redis:6379/0" {
		t.Errorf("the gateways' directory is %+v, the nodes' %+v", g.Cluster, n.Cluster)
	}
}

// checkScaledNodes checks that the component node-autoscaling agrees with the settings of a node,
// whose shutdown takes a time, and with the rules for Prometheus.
func checkScaledNodes(t *testing.T, n *config.Config, shutdown time.Duration) {
	t.Helper()
	spec := workload(t, "components/node-autoscaling/statefulset.yaml").Spec.Template.Spec
	c := spec.Containers[0]
	command := c.Lifecycle.PreStop.Exec.Command
	drain, err := time.ParseDuration(command[len(command)-1])
	if err != nil || !slices.Equal(command[:len(command)-1],
		[]string{"/usr/bin/sandgate", "node", "drain", "--timeout"}) {
		t.Errorf("before the end of a node: %q, %v", command, err)
	}
	if least := drain + shutdown; time.Duration(spec.Grace)*time.Second < least {
		t.Errorf("a node has %d s to end, and may need %s", spec.Grace, least)
	}
	for _, p := range []probe{c.Startup, c.Liveness} {
		if g := time.Duration(p.Grace) * time.Second; g < shutdown || g > shutdown+time.Minute {
			t.Errorf("a node that does not answer has %s to end", g)
		}
	}
	var scaler struct {
		Spec struct {
			Triggers []struct {
				Metadata struct{ Query, Threshold string }
			}
		}
	}
	text, err := os.ReadFile("components/node-autoscaling/scaler.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &scaler)
	}
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../monitoring/capacity.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range scaler.Spec.Triggers {
		m := one.Metadata
		places, err := strconv.Atoi(m.Threshold)
		if err != nil || places*10 > n.Sessions.Max*8 ||
			!strings.Contains(string(rules), "- record: "+m.Query+"\n") {
			t.Errorf("for %d sessions of a node: %+v", n.Sessions.Max, m)
		}
	}
}

// TestScaling renders the components for autoscaling, in any order with others, and checks that each
// fault in them, in priorities, in requests of disk space and in budgets is found.
func TestScaling(t *testing.T) {
	check := kubecheck(t)
	made := secrets(t, filepath.Join(t.TempDir(), "cluster"))
	for _, components := range [][]string{
		{"gateway-autoscaling"},
		{"folder", "node-autoscaling"},
		{"node-autoscaling", "redis-elsewhere", "folder", "gateway-autoscaling"},
		{"redis-elsewhere", "folder", "egress", "gateway-autoscaling", "node-autoscaling"},
	} {
		if _, wrong := check(with(t, components...), made); wrong != "" {
			t.Errorf("%q: %s", components, wrong)
		}
	}
	if _, wrong := check(with(t, "node-autoscaling"), made); !strings.Contains(wrong,
		"no blob store") {
		t.Errorf("nodes that come and go without a blob store: %q", wrong)
	}
	const nodes, gateways = "components/node-autoscaling/", "components/gateway-autoscaling/"
	all := [3]string{
		"cluster/kustomization.yaml", "components: []",
		"components: [../components/folder, ../" + nodes + ", ../" + gateways + "]",
	}
	for _, c := range [][4]string{
		{nodes + "kind.yaml", "value: StatefulSet", "value: Deployment", "unknown field"},
		{nodes + "scaler.yaml", "kind: StatefulSet", "kind: DaemonSet", "there is no DaemonSet"},
		{nodes + "scaler.yaml", `"false"`, `"true"`, "would count as 0"},
		{nodes + "scaler.yaml", `threshold: "11"`, `threshold: "0"`, "not complete"},
		{nodes + "scaler.yaml", "metricType: AverageValue", "metricType: Value", "not complete"},
		{nodes + "scaler.yaml", "minReplicaCount", "minReplicas", "unknown field"},
		{nodes + "scaler.yaml", "minReplicaCount: 2", "minReplicaCount: 1", "from 1 to 20"},
		{nodes + "scaler.yaml", "periodSeconds: 900", "periodSeconds: 300", "12m20s to end"},
		{nodes + "scaler.yaml", "value: 1\n", "value: 2\n", "2 may end"},
		{nodes + "scaler.yaml", "component: node", "component: gateway", "no disruption budget"},
		{nodes + "statefulset.yaml", `"drain"`, `"check"`, "no preStop hook that moves them"},
		{nodes + "statefulset.yaml", "kubernetes.io/hostname", "zone", "may share the folder"},
		{nodes + "service.yaml", "targetPort: node", "targetPort: http", "has no port"},
		{
			gateways + "kustomization.yaml", "op: remove\n        path: /spec/replicas",
			"op: replace\n        path: /spec/replicas\n        value: 3", "would restore",
		},
		{gateways + "scaler.yaml", "name: memory", "name: storage", "requests no storage"},
		{gateways + "scaler.yaml", "kind: Deployment", "kind: StatefulSet", "there is no"},
		{"cluster/gateway.yaml", "              cpu: 500m\n", "", "requests no cpu"},
		{"cluster/gateway.yaml", "kind: PodDisruptionBudget", "kind: Budget", "unknown kind"},
		{"cluster/gateway.yaml", "priorityClassName: sandgate", "priority: 5", "no priority"},
		{"cluster/redis.yaml", "priorityClassName: sandgate\n", "priority: 5\n", "no priority"},
		{"base/priority.yaml", "name: sandgate-sessions", "name: sessions", "no priority"},
		{"base/priority.yaml", "value: 1000000", "value: -1", "no priority"},
		{
			"base/priority.yaml", "value: 1000100",
			"value: 1000100\npreemptionPolicy: Never", "no priority",
		},
		{
			"cluster/gateway.yaml", "ephemeral-storage: 256Mi", "ephemeral-storage: 32Mi",
			"may exceed the limit",
		},
		{
			"cluster/node.yaml", "              ephemeral-storage: 16Mi\n", "",
			"join has no request or limit for ephemeral-storage",
		},
		{
			"cluster/node.yaml", "emptyDir:\n            sizeLimit: 1Gi", "emptyDir: {}",
			"may fill the disk",
		},
	} {
		dir := filepath.Join(tree(t, all, [3]string(c[:3])), "cluster")
		if _, wrong := check(dir, made); !strings.Contains(wrong, c[3]) {
			t.Errorf("%s with %q: %q, want %q", c[0], c[2], wrong, c[3])
		}
	}
}
