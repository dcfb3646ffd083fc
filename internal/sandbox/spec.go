package sandbox

// Spec describes a machine. The zero value is a machine with the backend's own
// image, environment and limits.
type Spec struct {
	// Image is the path of a root file system; "" means the backend's.
	Image string
	// Env is the agent's environment as NAME=value; nil means the backend's.
	Env []string
	// Limits bound the machine. A zero field means the backend's limit.
	Limits Limits
	// Volumes lets the machine have volumes.
	Volumes bool
	// Tenant is the tenant whose share of the processors the machine has; "" means none yet: it
	// has a share of its own.
	Tenant string
	// Mounts are volumes that are mounted before a restored machine
	// continues.
	Mounts []Volume
}

// Limits bound what a machine may use.
type Limits struct {
	// MemoryBytes is the memory of the processes.
	MemoryBytes int64
	// CPUs is the CPU share, which may be a fraction.
	CPUs float64
	// Processes is the number of processes and threads of a user.
	Processes int64
	// OpenFiles is the number of open files of a process.
	OpenFiles int64
	// DiskBytes bounds the writable layer over the image, TmpBytes bounds /tmp.
	DiskBytes, TmpBytes int64
	// Inodes is the number of files and directories that can be created.
	Inodes int64
}

// VolumesPath is the directory in a machine below which volumes appear.
const VolumesPath = "/volumes"

// Volume is a directory of the host that a machine sees below VolumesPath.
type Volume struct {
	// Name is the volume's name there: 1 to 64 letters, digits, hyphens, dots
	// and underscores. The first character is a letter or a digit.
	Name string
	// Dir is the absolute path of the directory. Its content belongs to the
	// machine: the host never resolves a path below it.
	Dir string
	// ReadOnly is enforced by the host's kernel.
	ReadOnly bool
}
