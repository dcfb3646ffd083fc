// Package config holds all settings of an operator: one struct, read from a strict YAML file, the
// environment and the command line. A flag overrides a variable, a variable overrides the file, and
// the file overrides the default.
//
// To add a setting: add a field with the tags yaml (its name), default and doc (one or more
// sentences with units and limits). Check it in Validate if its type allows invalid values. Write
// docs/configuration.md again with `sandgate config reference`.
package config

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/protocol/fault"
)

// DefaultFile is read if it exists and no other file is given.
const DefaultFile = "/etc/sandgate/config.yaml"

// Config holds all settings. It holds no secrets: a token is stored in a separate file, so that no
// process list and no log shows it.
type Config struct {
	Listen   string   `yaml:"listen" default:"127.0.0.1:8080" doc:"Address and port that the gateway accepts connections on. Anything but a loopback address is refused unless insecure_listen_without_tls is set: set tls.listen instead, or put a proxy that speaks TLS in front."`
	Insecure bool     `yaml:"insecure_listen_without_tls" default:"false" doc:"Allows listen to be an address that other machines reach. Tokens and code then cross the network in the clear."`
	DataDir  string   `yaml:"data_dir" default:"/var/lib/sandgate" doc:"Directory for data that must survive a restart: the token, warm snapshots and hibernated sessions. Owned by root, mode 0711."`
	RunDir   string   `yaml:"run_dir" default:"/run/sandgate" doc:"Directory for sockets and the state of running sandboxes. Owned by root, mode 0711; best on a tmpfs."`
	Runsc    string   `yaml:"runsc" doc:"Path of the runsc binary. Empty means runsc beside this program, or in ../bin of its directory."`
	Image    string   `yaml:"image" doc:"Path of the image with the languages, an EROFS file. Empty means image.erofs beside this program, or in ../bin or ../build of its directory."`
	Platform string   `yaml:"platform" default:"systrap" oneof:"systrap kvm" doc:"gVisor's platform: systrap runs anywhere, kvm needs /dev/kvm and is faster on bare metal."`
	User     string   `yaml:"gateway_user" doc:"User that the gateway runs as. Empty means sandgate if there is such a user, else nobody, with a warning."`
	Hosts    []string `yaml:"allowed_hosts" doc:"Host names, without port, that requests may name beside localhost, the loopback addresses and that of listen. Protects against DNS rebinding."`
	Origins  []string `yaml:"allowed_origins" doc:"Origins of web pages, such as https://app.example.org, that may use the API beside the server's own pages."`
	Ports    string   `yaml:"ports_domain" default:"localhost" doc:"Domain below which the ports of sessions have host names of their own, <port>-<session>.<domain>, such as ports.example.org; with https:// before it when a proxy speaks TLS in front, and a port behind it if that is not the usual one. It needs a wildcard in DNS, and should be no subdomain of where other people's pages live. localhost is for browsers on this machine. Empty: ports have paths alone."`
	E2B      string   `yaml:"e2b_domain" doc:"Domain for clients of E2B: api.<domain> is the API, <port>-<id>.<domain> a sandbox, such as sandboxes.example.org. It needs a wildcard in DNS and a certificate for it, and should be no subdomain of where other people's pages live. Empty: such clients use E2B_API_URL and E2B_SANDBOX_URL, which need neither."`
	E2BOpen  bool     `yaml:"insecure_e2b_interpreter_without_token" default:"false" doc:"Lets releases 1 of E2B's code interpreter run code, which send no token. Everybody who knows the id of a sandbox that such a client has created can then run code in it, and ids appear in host names, in DNS and in logs of proxies. Sandboxes of later releases still need their token."`
	Token    string   `yaml:"token_file" doc:"File with the access token, made on the first start, mode 0600. Empty means token in data_dir."`

	Private []string `yaml:"insecure_egress_to_private_networks" doc:"Networks that are not public and that sessions may reach, such as 10.1.2.0/24 with your own package registry. Hostile code can then reach every host in them that egress.allow names. Without this, all addresses outside the public internet are refused: those of this machine, private, link-local and shared networks, and clouds' metadata services."`

	TLS       TLS       `yaml:"tls"`
	Gateway   Gateway   `yaml:"gateway"`
	OIDC      OIDC      `yaml:"oidc"`
	LibreChat LibreChat `yaml:"librechat"`
	Onlyboxes Onlyboxes `yaml:"onlyboxes"`
	Surfaces  Surfaces  `yaml:"surfaces" doc:"Settings of the surfaces for chat applications and agents, by the name of the surface. The table below has the settings of each surface."`
	Pool      Pool      `yaml:"pool"`
	Limits    Limits    `yaml:"limits"`
	MaxLimits MaxLimits `yaml:"max_limits"`
	Sessions  Sessions  `yaml:"sessions"`
	Egress    Egress    `yaml:"egress"`
	Webhooks  Webhooks  `yaml:"webhooks"`
	Templates Templates `yaml:"templates"`
	Cluster   Cluster   `yaml:"cluster"`
	Upgrade   Upgrade   `yaml:"upgrade"`
	Audit     Audit     `yaml:"audit"`
	Usage     Usage     `yaml:"usage"`
	Tracing   Tracing   `yaml:"tracing"`
	Log       Log       `yaml:"log"`
}

// TLS configures the gateway's own TLS.
type TLS struct {
	Listen       string   `yaml:"listen" doc:"Address and port that the gateway accepts connections with TLS on, beside listen, such as :443. They speak HTTP/2 or HTTP/1.1, over TLS 1.2 or later. Empty: the gateway speaks no TLS."`
	Certificates []string `yaml:"certificates" doc:"Files with the certificates for tls.listen, PEM: each item is the file of a certificate with those that signed it, a colon and the file of its key, or one file with both. Clients get the certificate for the name that they ask for, and the first one for other names. For serve, only root needs to read them; a gateway that runs alone reads them as its user. They are read again within 5 s after they have changed."`
}

// Gateway limits the resources that clients may use.
type Gateway struct {
	Connections int      `yaml:"connections" default:"10000" min:"16" doc:"Connections of all clients at one time, at least 16. More are closed at once."`
	Sockets     int      `yaml:"sockets_per_principal" default:"256" min:"1" doc:"WebSockets of one principal at one time; at least 1. More are refused with 429."`
	SelfCheck   Duration `yaml:"self_check" default:"5m" min:"0" doc:"How old the result of the check cell may be from which GET /readyz answers. After that, a request makes the gateway run another cell. 0 means that no cell is run: the gateway is then ready if its node answers."`
}

// Pool configures the sandboxes that wait for a session.
type Pool struct {
	Size      int      `yaml:"size" default:"2" min:"0" max:"1000" doc:"Number of warm sandboxes kept ready for each language in languages, 0 to 1000. With 0 each session waits for a restore or a boot. If a tenant beside the operator has a key, a quarter more are kept, for tenants that have taken few."`
	Languages []string `yaml:"languages" default:"python" doc:"Languages that sandboxes are always kept warm for. Sandboxes for other languages and templates are made on demand."`
	Memory    Size     `yaml:"memory" default:"512MiB" doc:"Memory that sandboxes may hold which are kept ready beyond size: for what was asked for within the last minutes, at most 16 for each language and template. 0 keeps none."`
	Shared    bool     `yaml:"shared_memory" default:"false" doc:"Lets sandboxes that are restored from the same warm snapshot share its pages in memory, until they write to them. Without it, each has a copy. Pages are shared only if data_dir is on a file system that is not mounted noexec."`
	Spare     int      `yaml:"spare" default:"1" min:"0" max:"100" doc:"Standby sandboxes, 0 to 100, 22 MiB each, so that resuming and forking a session do not wait for the creation of a sandbox."`
}

// Limits are the limits of one sandbox.
type Limits struct {
	Memory  Size     `yaml:"memory" default:"1GiB" min:"256MiB" doc:"Memory for the programs of one sandbox; at least 256MiB. Its files are in memory too: the sandbox ends when it takes more than limits.memory, limits.disk, limits.tmp and 160MiB together, which quotas count."`
	CPUs    float64  `yaml:"cpus" default:"2" min:"0.1" doc:"Processors that one sandbox may use, in fractions from 0.1."`
	PIDs    int      `yaml:"pids" default:"512" min:"32" max:"4096" doc:"Processes and threads of the user in one sandbox, 32 to 4096."`
	Overlay Size     `yaml:"overlay" default:"1GiB" min:"16MiB" doc:"Bytes that a sandbox may write to its filesystem, which is in memory; at least 16MiB."`
	Tmp     Size     `yaml:"tmp" default:"256MiB" min:"1MiB" doc:"Size of /tmp in a sandbox; at least 1MiB."`
	Files   int      `yaml:"open_files" default:"4096" min:"64" doc:"Open files of one process in a sandbox, at least 64."`
	Inodes  int      `yaml:"inodes" default:"262144" min:"64" doc:"Files and folders that may be made in /tmp, in /dev/shm, and outside them, each for itself; at least 64."`
	Output  Size     `yaml:"output" default:"0" min:"64KiB" off:"0" doc:"Bytes that each channel may print in a second; at least 64KiB. A faster program waits. 0 means no limit."`
	Cell    Duration `yaml:"cell" default:"0s" min:"1s" off:"0" doc:"How long a cell may run before it is interrupted, in whole seconds; 0 means no limit."`
}

// MaxLimits are the highest limits that a session or a template may request. A value below the
// default in Limits counts as that default.
type MaxLimits struct {
	Memory  Size    `yaml:"memory" default:"4GiB" doc:"The most memory that a session or a template may ask for. This and those below mean what limits says where they are less."`
	CPUs    float64 `yaml:"cpus" default:"4" doc:"The most processors that a session may ask for."`
	PIDs    int     `yaml:"pids" default:"4096" max:"4096" doc:"The most processes and threads that a session may ask for, at most 4096."`
	Overlay Size    `yaml:"overlay" default:"4GiB" doc:"The most that a session may ask to write to its filesystem."`
	Tmp     Size    `yaml:"tmp" default:"1GiB" doc:"The largest /tmp that a session may ask for."`
	Files   int     `yaml:"open_files" default:"65536" doc:"The most open files of one process that a session may ask for."`
	Inodes  int     `yaml:"inodes" default:"4194304" doc:"The most files and folders that a session may ask for."`
}

// Sessions configures sessions and their channels.
type Sessions struct {
	Max         int      `yaml:"max" default:"16" min:"1" doc:"Sessions with a sandbox at one time; at least 1. For further ones those that have been idle longest are hibernated; while none is idle they are refused with 429 and a time to try again."`
	Lifetime    Duration `yaml:"lifetime" default:"0" min:"0" doc:"A session that does not ask for another lifetime ends this long after its creation, whatever it does. 0 means max_lifetime; without that, sessions stay until somebody deletes them."`
	MaxLifetime Duration `yaml:"max_lifetime" default:"0" min:"0" doc:"The longest lifetime that a session may ask for, at least that of lifetime. 0 means that there is none, and a session may ask for no end. A change applies to new sessions and to new requests for a lifetime."`
	IdleDelete  Duration `yaml:"idle_delete" default:"0" min:"0" doc:"A session without work for this long is deleted, also while it is hibernated. A session may ask for a shorter time. 0 means never, and a session may ask for any time."`
	Pause       Duration `yaml:"idle_pause" default:"60s" min:"0" doc:"A session without work for this long is paused: it keeps its memory and takes no processor; 0 means never."`
	Hibernate   Duration `yaml:"idle_hibernate" default:"15m" min:"0" doc:"A paused session without work for this long is hibernated: it is in data_dir and takes no memory until work resumes it; 0 means never."`
	Hibernated  int      `yaml:"max_hibernated" default:"1000" min:"0" doc:"Hibernated sessions at one time, beside max; at least 0. Each takes about as much of data_dir as it had memory and files. Further ones stay paused."`
	Snapshots   int      `yaml:"max_snapshots" default:"100" min:"0" doc:"Snapshots that users keep at one time, at least 0. Further ones are refused. Copies of other nodes' snapshots take the places that are left."`
	SnapshotMax Size     `yaml:"max_snapshot_bytes" default:"20GiB" min:"1MiB" doc:"Bytes in data_dir that all snapshots together may take; at least 1MiB. A snapshot that does not fit is refused. Copies of other nodes' snapshots give way to it."`
	Volumes     int      `yaml:"max_volumes" default:"100" min:"0" doc:"Volumes that a tenant may have, at least 0. Further ones are refused."`
	VolumeMax   Size     `yaml:"max_volume_bytes" default:"10GiB" min:"1MiB" doc:"The most that one volume may hold, in data_dir; at least 1MiB. It is measured every 5 s while sessions write to it: one that holds more becomes read-only for them, and a session that continues to write, up to twice as much, is ended."`
	Durable     bool     `yaml:"durable" default:"false" doc:"Makes sessions durable by default. A durable session is copied to data_dir when it becomes idle after work. After the server was killed, it continues from that copy; a session that is not durable is lost."`
	DurableRate Duration `yaml:"durable_every" default:"30s" min:"1s" doc:"The least time between two such copies of a session; at least 1s."`
	DurableMax  Size     `yaml:"durable_max" default:"2GiB" min:"1MiB" doc:"A durable session whose sandbox holds more memory than this is not copied, which its log says; at least 1MiB."`
	Shutdown    Duration `yaml:"shutdown_limit" default:"30s" min:"0" max:"40s" doc:"How long a server that stops takes to hibernate its sessions for the next start, at most 40s; those it cannot in that time are lost, as are all with 0."`
	Memory      Size     `yaml:"memory" default:"0" min:"0" doc:"Memory that all sandboxes may hold together. Beyond it sessions that are idle are hibernated, those first that have been longest, and new ones are refused while there are none. 0 means four fifths of the machine's."`
	MaxIdle     Duration `yaml:"max_idle" default:"24h" min:"1s" doc:"The longest idle_pause or idle_hibernate that a session may ask for; at least 1s."`
	MaxKeep     int      `yaml:"max_keep_alive" default:"4" min:"0" doc:"Sessions that may be kept alive at one time, which are never paused or hibernated for being idle; 0 means none."`
	Queue       int      `yaml:"queue" default:"32" min:"0" doc:"Requests that wait to create or resume a session while all places are taken. One tenant has at most half of them, and tenants take turns. Further ones are refused at once; 0 refuses all."`
	QueueWait   Duration `yaml:"queue_wait" default:"10s" min:"100ms" doc:"How long one of them waits before it is refused; at least 100ms."`
	ClaimWait   Duration `yaml:"claim_wait" default:"30s" min:"1s" doc:"How long the creation of a session waits for a sandbox before it is refused; at least 1s."`
	LogMemory   Size     `yaml:"log_memory" default:"1MiB" min:"64KiB" doc:"Output of each channel that is kept in memory; at least 64KiB."`
	LogDisk     Size     `yaml:"log_disk" default:"64MiB" min:"1MiB" doc:"Output of each channel that is kept in data_dir beyond that; the oldest goes first. At least 1MiB."`
}

// Webhooks configures where gateways send events.
type Webhooks struct {
	Allow []string `yaml:"allow" doc:"Networks that are not public and that webhooks may reach, such as 10.1.2.0/24. Any tenant can then send requests to every host in them. Without this, webhooks reach only public addresses."`
}

// Egress configures the outside hosts that sessions may reach.
type Egress struct {
	Allow       []string `yaml:"allow" doc:"The most that any session may reach outside, if it asks for network: hosts such as git.example.org, *.example.org for all below a domain, * for all, or presets: python, node, go, php, java, debian. :port selects another port than 80 and 443. Empty: no session reaches anything."`
	Tenants     []string `yaml:"tenants" doc:"Tenants whose sessions may ask for network. Empty means all."`
	Connections int      `yaml:"connections" default:"64" min:"1" max:"256" doc:"Connections to the outside that a session has at one time, 1 to 256. Further ones are refused."`
	Rate        Size     `yaml:"bytes_per_second" default:"0" min:"64KiB" off:"0" doc:"Bytes that a session may send and receive in a second, both together; at least 64KiB. A faster session waits. 0 means no limit."`
	Bytes       Size     `yaml:"bytes" default:"16GiB" min:"1MiB" off:"0" doc:"Bytes that a session may send and receive in its life, both together; at least 1MiB. After that, its connections are closed and new ones refused. 0 means no limit."`
	Dial        Duration `yaml:"dial_timeout" default:"10s" min:"100ms" max:"60s" doc:"How long a host's name and a connection to it may take, 100ms to 60s."`
	Idle        Duration `yaml:"idle_timeout" default:"5m" min:"1s" doc:"A connection that carries nothing for this long is cut; at least 1s."`
	Resolver    string   `yaml:"resolver" doc:"Address and port of the DNS server that is asked for hosts' names, as 10.0.0.2:53. Empty means the machine's own."`
}

// Templates configures templates that users create.
type Templates struct {
	Max   int      `yaml:"max" default:"32" min:"0" doc:"Templates of one tenant; 0 means that none can be made."`
	Bytes Size     `yaml:"bytes" default:"1GiB" min:"1MiB" doc:"Bytes of one template's files, packages and image together; at least 1MiB."`
	Build Duration `yaml:"build" default:"10m" min:"1s" doc:"How long the building of one may take; at least 1s."`
}

// Cluster configures several nodes and gateways that work as one server.
type Cluster struct {
	Redis     string   `yaml:"redis" doc:"Address of the Redis server, 7 or later, that keeps the cluster's directory, such as redis://10.0.0.5:6379/0, or rediss:// with TLS. Empty: this is no cluster, and the directory is a file in data_dir."`
	User      string   `yaml:"redis_user" doc:"User at that server; empty for its default."`
	Password  string   `yaml:"redis_password_file" doc:"File with the password at that server, mode 0600; empty for none."`
	Name      string   `yaml:"name" default:"sandgate" doc:"Name of the cluster, with which its keys begin: letters, digits, dots and dashes."`
	Node      string   `yaml:"node" doc:"Name of this node, unlike that of any other: letters, digits, dots and dashes. Empty means the host name."`
	Zone      string   `yaml:"zone" doc:"Label of the place where this machine is, such as a data centre: letters, digits, dots and dashes. A gateway prefers nodes of its zone for new sessions while they have room. Empty: it prefers none."`
	Listen    string   `yaml:"listen" doc:"Address and port on which the node answers the cluster's gateways, over TLS with certificates on both sides. Empty: only the gateway of this machine reaches it."`
	Address   string   `yaml:"address" doc:"Address and port at which gateways reach this node. Empty means the address in listen, which must then be a specific one."`
	Dir       string   `yaml:"dir" doc:"Folder with the certificates that sandgate cluster join makes. Empty means cluster in data_dir."`
	Lease     Duration `yaml:"lease" default:"45s" min:"1s" doc:"How long a node owns its sessions without word from the directory, at least 1s, and the same for all nodes. After that it acknowledges nothing until the directory answers; and a node that died is missed for as long."`
	Grace     Duration `yaml:"keys_grace" default:"10m" min:"1s" doc:"How long API keys that a gateway knows are good while it cannot ask whether another has revoked them, at least 1s. Keys that it does not know are answered with 503 meanwhile."`
	Drain     Duration `yaml:"drain_limit" default:"30s" min:"0" max:"10m" doc:"How long a node that is stopped takes to move its sessions to the blob store, where other nodes take them, at most 10m; what it cannot in that time stays on its disk, as all do with 0 and where no other node takes sessions."`
	Placement string   `yaml:"placement" default:"spread" oneof:"spread pack" doc:"How a gateway divides sessions between nodes that have room: spread chooses nodes with little load, pack fills nodes up to nine tenths, so that others stay empty."`
	Blobs     string   `yaml:"blobs" doc:"Where sessions lie while no node has them, and snapshots of users, so that each node can use them: a folder that all nodes share, or s3://bucket/prefix on an S3-compatible server. Without it a node that is drained keeps its own, and snapshots can be used on the node that took them."`

	Records Duration `yaml:"records" default:"2160h" min:"1h" doc:"How long cluster.blobs keeps the record of use and the audit log of a node that has gone, at least 1h. Reports have them for as long."`

	Checkpoints    bool     `yaml:"checkpoints" default:"true" doc:"Copies of durable sessions go to cluster.blobs too, so that another node can continue them if their node is lost."`
	CheckpointRate Size     `yaml:"checkpoint_rate" default:"16MiB" min:"1MiB" doc:"Bytes a second that a node's copies may take on their way there, compressed, all together; at least 1MiB."`
	TakeOver       Duration `yaml:"take_over" default:"30s" min:"0s" doc:"How long a node is missed, beyond its lease, before another node continues its durable sessions from their last copy. A node that starts again within that time keeps them and all their work."`

	S3Endpoint    string `yaml:"s3_endpoint" doc:"Address of that server, such as https://10.0.0.7:9000. Empty means Amazon's."`
	S3Region      string `yaml:"s3_region" default:"us-east-1" doc:"Region of the bucket."`
	S3Credentials string `yaml:"s3_credentials_file" doc:"File with the credentials at that server, mode 0600: lines aws_access_key_id=… and aws_secret_access_key=…, and aws_session_token=… if there is one. It is read again every minute."`
	S3Insecure    bool   `yaml:"s3_insecure" default:"false" doc:"Allows the address of another machine without TLS. The network between them then sees the memory of sessions."`
}

// Upgrade configures the use of earlier runtimes and images.
type Upgrade struct {
	Window Duration `yaml:"window" default:"168h" min:"0" max:"8760h" doc:"How long a node keeps its earlier runtimes and images after an upgrade, at most 8760h. Sessions and snapshots of them can be resumed for as long. After that, sessions and snapshots are carried over to the current ones with their files, durable sessions first; those for which an hour is not enough are lost. 0 keeps none, and carries none over."`
	Share  Size     `yaml:"share" default:"4GiB" min:"0" doc:"The largest image that a node puts into cluster.blobs. While sessions or snapshots need an earlier runtime and image, nodes keep both there, so that a node that lacks them, such as a new machine, fetches them. A larger image is left out, and only nodes that have it resume its sessions. 0 leaves out all images, but not the runtimes, of about 80 MiB each."`
	Keep   int      `yaml:"keep" default:"3" min:"0" max:"20" doc:"The most earlier pairs of a runtime and an image that a node keeps, 0 to 20. The oldest ones are removed first. Each is a hard link in data_dir, or a copy if the files are on another file system."`
}

// Audit configures the record of who did what.
type Audit struct {
	Enabled  bool   `yaml:"enabled" default:"true" doc:"Keeps an audit log in data_dir/audit: each user's operations and all refused requests. docs/operation.md describes it."`
	Code     string `yaml:"code" default:"hash" oneof:"hash whole" doc:"How the audit log records code: hash for its SHA-256 only, whole for its first 64KiB too."`
	Required bool   `yaml:"required" default:"false" doc:"Refuses operations with 503 if they cannot be recorded before they are carried out, such as when the disk is full. Otherwise, entries that cannot be written are counted and the server continues."`
	MaxFile  Size   `yaml:"max_file" default:"64MiB" min:"64KiB" doc:"Size of an audit file at which the next one begins; at least 64KiB."`
	Keep     int    `yaml:"keep" default:"8" min:"1" doc:"Full audit files that are kept, the oldest goes first; at least 1. Ship them elsewhere to keep more."`
}

// Usage configures the record of the resources that sessions use.
type Usage struct {
	MaxFile Size `yaml:"max_file" default:"16MiB" min:"64KiB" doc:"Size of a file of data_dir/usage at which the next one begins; at least 64KiB. A session that runs takes about 250 bytes a minute."`
	Keep    int  `yaml:"keep" default:"8" min:"1" doc:"Full usage files that are kept, the oldest goes first; at least 1."`
}

// Tracing configures OpenTelemetry.
type Tracing struct {
	Endpoint string  `yaml:"endpoint" doc:"Address of an OpenTelemetry collector that takes traces over HTTP, such as http://127.0.0.1:4318/v1/traces. Empty: nothing is traced."`
	Sample   float64 `yaml:"sample" default:"0.1" min:"0" max:"1" doc:"Part of the requests that are traced, from 0 to 1. A request with a W3C traceparent is traced if that says so."`
	Queue    int     `yaml:"queue" default:"4096" min:"64" doc:"Spans that wait to be sent at most, of gateway and node each; at least 64. Further ones are dropped and counted, and nothing waits."`
}

// Log configures the server's own log, on standard error.
type Log struct {
	Level  string `yaml:"level" default:"info" oneof:"debug info warn error" doc:"Lowest level that is logged: debug, info, warn or error."`
	Format string `yaml:"format" default:"text" oneof:"text json" doc:"text for people, json for machines."`
}

// Size is a number of bytes. It is written with or without a unit: 1048576,
// 512KiB, 1GiB.
type Size int64

// String formats the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits() {
		if u.bytes > 1 && s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

type sizeUnit struct {
	name  string
	bytes int64
}

func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"TiB", 1 << 40},
		{"GiB", 1 << 30},
		{"MiB", 1 << 20},
		{"KiB", 1 << 10},
		{"B", 1},
		{"", 1},
	}
}

// Duration is a time span in Go's format: 90s, 24h, 1h30m.
type Duration time.Duration

// String formats the duration without zero parts: 24h, not 24h0m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// PrivateNetworks returns the private networks that sessions may reach.
func (c *Config) PrivateNetworks() ([]netip.Prefix, error) {
	return networks("insecure_egress_to_private_networks", c.Private)
}

// WebhookNetworks returns the private networks that webhooks may reach.
func (c *Config) WebhookNetworks() ([]netip.Prefix, error) {
	return networks("webhooks.allow", c.Webhooks.Allow)
}

func networks(field string, list []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return nil, fault.Invalid("config.validate", field,
				"%q is not a network, such as 10.1.2.0/24", text)
		}
		if p != p.Masked() {
			return nil, fault.Invalid("config.validate", field,
				"%q is an address in a network; %s is the network", text, p.Masked())
		}
		all = append(all, p)
	}
	return all, nil
}

// TokenFile returns the path of the access token.
func (c *Config) TokenFile() string {
	if c.Token != "" {
		return c.Token
	}
	return filepath.Join(c.DataDir, "token")
}

// NodeSocket returns the path of the Unix socket between gateway and node.
func (c *Config) NodeSocket() string { return filepath.Join(c.RunDir, "node.sock") }

// StateDir returns the folder of runsc's state of sandboxes.
func (c *Config) StateDir() string { return filepath.Join(c.RunDir, "sandboxes") }

// TenantsFile returns the path of the file with keys and quotas.
func (c *Config) TenantsFile() string { return filepath.Join(c.DataDir, "tenants.json") }

// AuditDir returns the folder of the audit log.
func (c *Config) AuditDir() string { return filepath.Join(c.DataDir, "audit") }

// UsageDir returns the folder of the usage records, which is beside AuditDir.
func (c *Config) UsageDir() string { return filepath.Join(c.DataDir, "usage") }

// NodeDir returns the folder of warm snapshots and logs.
func (c *Config) NodeDir() string { return filepath.Join(c.DataDir, "node") }

// ClusterDir returns the folder of the certificates.
func (c *Config) ClusterDir() string {
	if c.Cluster.Dir != "" {
		return c.Cluster.Dir
	}
	return filepath.Join(c.DataDir, "cluster")
}

// RunscPath returns the path of the runsc binary: the setting, or the first of the usual places
// that exists.
func (c *Config) RunscPath() string { return find(c.Runsc, "runsc", ".", "../bin") }

// ImagePath returns the path of the image: the setting, or the first of the usual places that
// exists.
func (c *Config) ImagePath() string {
	return find(c.Image, "image.erofs", ".", "../bin", "../build")
}

// find returns set if it is not empty. Otherwise it returns name in the first of the directories
// that has it, or else in the first directory. The directories are relative to this program's.
func find(set, name string, dirs ...string) string {
	if set != "" {
		return set
	}
	exe, err := os.Executable()
	if err != nil {
		return name
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	for _, d := range dirs {
		path := filepath.Join(filepath.Dir(exe), d, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return filepath.Join(filepath.Dir(exe), name)
}

// Loopback reports whether only this machine can reach the address in Listen.
func (c *Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Complete returns an error if there is an address without certificates, or the reverse.
func (t TLS) Complete() error {
	const op = "config.tls"
	switch {
	case t.Listen == "" && len(t.Certificates) > 0:
		return fault.Invalid(op, "tls.listen", "is needed for tls.certificates")
	case t.Listen != "" && len(t.Certificates) == 0:
		return fault.Invalid(op, "tls.certificates", "must name a certificate for tls.listen")
	}
	return nil
}

// validate checks the address.
func (t TLS) validate(op string) error {
	_, port, err := net.SplitHostPort(t.Listen)
	n, nerr := strconv.Atoi(port)
	if t.Listen != "" && (err != nil || nerr != nil || n < 0 || n > 65535) {
		return fault.Invalid(op, "tls.listen", "%q is not an address with a port, such as :443",
			t.Listen)
	}
	return nil
}

// Validate checks constraints that the types of the settings do not express. The error names the
// setting.
func (c *Config) Validate() error {
	const op = "config.validate"
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fault.Invalid(op, "listen",
			"%q is not an address with a port, such as 127.0.0.1:8080", c.Listen)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fault.Invalid(op, "listen", "%q is not a port from 0 to 65535", port)
	}
	for _, d := range []struct{ name, path string }{
		{"data_dir", c.DataDir},
		{"run_dir", c.RunDir},
	} {
		if !filepath.IsAbs(d.path) {
			return fault.Invalid(op, d.name, "%q is not an absolute path", d.path)
		}
	}
	// runsc creates sockets below it, and the path of a Unix socket has at most 107 bytes.
	if n := len(c.StateDir()); n > 60 {
		return fault.Invalid(op, "run_dir",
			"the path is %d bytes too long for the sockets below it", n-60)
	}
	if err := c.TLS.validate(op); err != nil {
		return err
	}
	if err := c.OIDC.validate(op); err != nil {
		return err
	}
	for _, f := range Fields(c) {
		if err := f.check(op); err != nil {
			return err
		}
	}
	if err := c.Surfaces.validate(op); err != nil {
		return err
	}
	if m := c.Sessions.MaxLifetime; m > 0 && m < c.Sessions.Lifetime {
		return fault.Invalid(op, "sessions.max_lifetime", "must be at least sessions.lifetime")
	}
	return c.validateReferences(op)
}

// notInLabel reports whether a label may not have a character.
func notInLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' &&
		r != '-'
}

// validateReferences checks the settings that name something: addresses, folders,
// networks and other settings.
func (c *Config) validateReferences(op string) error {
	if b := c.Cluster.Blobs; b != "" && !filepath.IsAbs(b) && !strings.HasPrefix(b, "s3://") {
		return fault.Invalid(op, "cluster.blobs",
			"%q is neither an absolute path nor s3://bucket/prefix", b)
	}
	if strings.HasPrefix(c.Cluster.Blobs, "s3://") && c.Cluster.S3Credentials == "" {
		return fault.Invalid(op, "cluster.s3_credentials_file", "a bucket takes credentials")
	}
	if z := c.Cluster.Zone; len(z) > 64 || strings.ContainsFunc(z, notInLabel) {
		return fault.Invalid(op, "cluster.zone",
			"%.70q is not a label of at most 64 letters, digits, dots and dashes", z)
	}
	if r := c.Egress.Resolver; r != "" {
		if _, err := netip.ParseAddrPort(r); err != nil {
			return fault.Invalid(op, "egress.resolver",
				"%q is not an address and a port, such as 10.0.0.2:53", r)
		}
	}
	if _, err := egress.ParseList("egress.allow", c.Egress.Allow); err != nil {
		return err
	}
	if _, err := c.WebhookNetworks(); err != nil {
		return err
	}
	if _, err := egress.ParseList("onlyboxes.export_hosts", c.Onlyboxes.Hosts); err != nil {
		return err
	}
	if _, err := c.ExportNetworks(); err != nil {
		return err
	}
	if _, err := c.PrivateNetworks(); err != nil {
		return err
	}
	if u, err := url.Parse(c.Tracing.Endpoint); c.Tracing.Endpoint != "" &&
		(err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" ||
			u.User != nil) {
		return fault.Invalid(op, "tracing.endpoint",
			"it is not an address such as http://127.0.0.1:4318/v1/traces, without a name and a password")
	}
	if c.Pool.Size > 0 && len(c.Pool.Languages) == 0 {
		return fault.Invalid(op, "pool.languages", "must name a language when pool.size is above 0")
	}
	if c.MaxLimits.CPUs > float64(max(1024, runtime.NumCPU())) {
		return fault.Invalid(op, "max_limits.cpus", "must be at most 1024")
	}
	return nil
}
