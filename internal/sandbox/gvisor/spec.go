package gvisor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Spec describes the program in a sandbox. A restored sandbox must have the Args and the
// file-system sizes of the checkpointed one. The environment and the host name may differ, and the
// guest finds the new environment in /proc/gvisor/spec_environ.
//
// The names of snapshots hash the JSON of a Spec: the field names and their order never change.
type Spec struct {
	// Image is the path of the root file system: an EROFS file made with -Enoinline_data and
	// without compression. It is opened read-only. A writable layer in memory, with
	// Limits.OverlayBytes, lies over it.
	Image string `json:"Image"`
	// Args is the first process and its arguments. It runs as root of the
	// container, with the few capabilities of agentCapabilities.
	Args []string `json:"Args"`
	// Env is the environment of the first process, as NAME=value.
	Env []string `json:"Env"`
	// Hostname is the host name in the guest. Default "sandbox".
	Hostname string `json:"Hostname"`
	// Limits have the defaults that their comments state.
	Limits Limits `json:"Limits"`
	// Volumes allows volumes to be mounted: see Sandbox.Mount. It costs a process of 13 MiB that
	// serves files.
	Volumes bool `json:"Volumes"`
	// Tenant is the tenant whose share of the processors the sandbox has; "" means none: it has a
	// share of its own. It is not part of a snapshot.
	Tenant string `json:"-"`
	// Runsc is another runtime than that of Config, for snapshots that it wrote.
	Runsc Binary `json:"-"`
}

// Binary is a runsc binary and its edition.RuntimeID.
type Binary struct{ Path, ID string }

// imageLink is the path under which `runsc create` finds the image: a symbolic link in the bundle,
// which is its working directory. gVisor refuses to restore a snapshot if the image has another
// path than before. This path is the same on every node and for every release of an image. The
// manifest of the snapshot ensures that the image itself is the same.
const (
	imageName = "image.erofs"
	imageLink = "/proc/self/cwd/" + imageName
)

// The annotations that configure gVisor. Annotations are privileged: some open host sockets, others
// write to host directories. Only these four are used, and no input from outside gets into them
// except numbers.
const (
	annotationRootSource  = "dev.gvisor.spec.rootfs.source"
	annotationRootType    = "dev.gvisor.spec.rootfs.type"
	annotationRootOverlay = "dev.gvisor.spec.rootfs.overlay"
	annotationRootOptions = "dev.gvisor.spec.rootfs.options"
)

// agentCapabilities are the capabilities that the agent needs as root of the container: to start
// processes as other users, to stop them, and to read and write their files. User code has none:
// its uid is not 0, and no_new_privs together with gVisor's refusal of set-uid bits prevents it
// from gaining any.
func agentCapabilities() []string {
	return []string{
		"CAP_CHOWN",
		"CAP_DAC_OVERRIDE",
		"CAP_FOWNER",
		"CAP_KILL",
		"CAP_SETGID",
		"CAP_SETUID",
	}
}

var (
	hostnamePattern = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,62}[a-zA-Z0-9])?$`)
	envPattern      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*=`)
)

// resolve returns s with defaults filled in, or an error that names the invalid field.
func (s Spec) resolve(op string) (Spec, error) {
	s.Limits = s.Limits.Resolve()
	s.Hostname = or(s.Hostname, "sandbox")
	if err := s.Limits.check(op); err != nil {
		return s, err
	}
	if !hostnamePattern.MatchString(s.Hostname) {
		return s, fault.Invalid(op, "hostname",
			"%.80q is not a host name of at most 64 letters, digits and hyphens", s.Hostname)
	}
	if len(s.Args) == 0 || !filepath.IsAbs(s.Args[0]) {
		return s, fault.Invalid(op, "args",
			"the first argument must be the absolute path of a program in the image")
	}
	for _, a := range s.Args {
		if strings.ContainsRune(a, 0) {
			return s, fault.Invalid(op, "args", "an argument contains a zero byte")
		}
	}
	for _, e := range s.Env {
		if !envPattern.MatchString(e) || strings.ContainsRune(e, 0) {
			return s, fault.Invalid(op, "env", "%.80q is not NAME=value", e)
		}
	}
	if !filepath.IsAbs(s.Image) {
		return s, fault.Invalid(op, "image", "%q is not an absolute path", s.Image)
	}
	fi, err := os.Stat(s.Image)
	if err != nil {
		return s, &fault.Error{
			Kind: fault.Host, Op: op,
			Message: "the image cannot be read; build it with make build", Err: err,
		}
	}
	if !fi.Mode().IsRegular() {
		return s, fault.Invalid(op, "image", "%q is not a regular file", s.Image)
	}
	return s, nil
}

// oci returns the OCI configuration of a sandbox whose cgroup is at cgroupPath. root is an empty
// directory that is never used, because the image takes its place.
//
// The configuration does not contain the cgroup's limits. They are set before `runsc create` runs,
// so that they are not part of a snapshot.
func (s Spec) oci(root, cgroupPath string) *specs.Spec {
	caps := agentCapabilities()
	l := s.Limits
	oomScore := 500 // the kernel kills it before the node
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: s.Hostname,
		Root:     &specs.Root{Path: root},
		Process: &specs.Process{
			Cwd:             "/",
			Args:            s.Args,
			Env:             s.Env,
			NoNewPrivileges: true,
			OOMScoreAdj:     &oomScore,
			Rlimits:         l.rlimits(),
			Capabilities: &specs.LinuxCapabilities{
				Bounding:  caps,
				Effective: caps,
				Permitted: caps,
			},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{
				Destination: "/sys", Type: "sysfs", Source: "sysfs",
				Options: []string{"nosuid", "noexec", "nodev", "ro"},
			},
			{
				Destination: "/dev", Type: "tmpfs", Source: "tmpfs",
				Options: []string{"nosuid", "strictatime", "mode=755"},
			},
			{
				Destination: "/dev/pts", Type: "devpts", Source: "devpts",
				Options: []string{"nosuid", "noexec"},
			},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{
				"nosuid",
				"noexec", "nodev", "mode=1777", sizeOption(l.ShmBytes), inodeOption(l.Inodes),
			}},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{
				"nosuid",
				"nodev", "mode=1777", sizeOption(l.TmpBytes), inodeOption(l.Inodes),
			}},
		},
		Annotations: map[string]string{
			annotationRootSource:  imageLink,
			annotationRootType:    "erofs",
			annotationRootOverlay: "memory",
			annotationRootOptions: sizeOption(l.OverlayBytes) + "," + inodeOption(l.Inodes),
		},
		Linux: &specs.Linux{
			CgroupsPath: cgroupPath,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.NetworkNamespace},
			},
		},
	}
}
