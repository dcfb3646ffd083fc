package protocol

// The operations on templates.
const (
	OpTemplateBuild  = "template.build"
	OpTemplateList   = "template.list"
	OpTemplateGet    = "template.get"
	OpTemplateDelete = "template.delete"
)

// TemplateRef names a template.
type TemplateRef struct {
	Name string `json:"name"`
}

// TemplateSpec describes how a template is made. It is the file template.json at the beginning of a
// template's tar. Regular files follow: below files/ those that are put into the sandbox, by their
// absolute paths; below packages/ those that packages are installed from; below oci/ an image.
type TemplateSpec struct {
	Description string `json:"description,omitempty"`
	// Languages are the languages of the template; the first one is warm. An empty list means all
	// languages of the image, with python warm if the image has it.
	Languages []string `json:"languages,omitempty"`
	// Env is the environment of all programs in it.
	Env map[string]string `json:"env,omitempty"`
	// Limits are the defaults of its sessions.
	Limits Limits `json:"limits,omitzero"`
	// Packages are the packages for python, javascript, go, php and java, as the language's package
	// manager names them: at most 256, each of at most 200 bytes. They come from the files below
	// packages/ and, with BuildNetwork, from the languages' indexes.
	Packages map[string][]string `json:"packages,omitempty"`
	// Run is a list of shell commands. Each runs with the user's rights in the user's home, in this
	// order, before the language starts.
	Run []string `json:"run,omitempty"`
	// BuildNetwork is what package managers and Run may reach outside during the build. It does not
	// apply to the template's sessions.
	BuildNetwork *Network `json:"build_network,omitempty"`
	// SessionNetwork is the default Network of its sessions.
	SessionNetwork *Network `json:"session_network,omitempty"`
	// Volumes are those of its sessions, beside those of a request. Missing ones are created.
	Volumes []Mount `json:"volumes,omitempty"`
	// Services start in each of its sessions.
	Services []Service `json:"services,omitempty"`
	// Code is run by the warm language during the build. Its results exist in each session.
	Code string `json:"code,omitempty"`
	// Bare leaves out the libraries that the warm language usually loads ahead: numpy, pandas and
	// matplotlib in Python. That saves a third of the memory, and of the disk space in hibernation.
	Bare bool `json:"bare,omitempty"`
}

// Template is a template as clients see it.
type Template struct {
	Name string       `json:"name"`
	Spec TemplateSpec `json:"spec"`
	// State is building, ready or failed. The first session of a template that is not ready builds
	// it.
	State string `json:"state"`
	// Error is why the build failed. Log is the end of its commands' output, at most 64 KiB.
	Error string `json:"error,omitempty"`
	Log   string `json:"log,omitempty"`
	// Languages are the languages that sessions of it can use.
	Languages []string `json:"languages"`
	// Kernelspecs describe the languages that its image or its files declare: Jupyter kernels, and
	// compilers and interpreters of programs.
	Kernelspecs []Language `json:"kernelspecs,omitempty"`
	CreatedMS   int64      `json:"created_ms"`
	// Bytes is the size of its files and image on disk, without the snapshot.
	Bytes int64 `json:"bytes"`
	// Ready is the number of sandboxes in the pool, Size the wanted number.
	Ready int `json:"ready"`
	Size  int `json:"size"`
	// Stored is set when the blob store has it, so that each node of the cluster can use it.
	Stored bool `json:"stored,omitempty"`
}

// TemplateList is the caller's templates, by name.
type TemplateList struct {
	Templates []Template `json:"templates"`
	Missing   []string   `json:"missing,omitempty"`
}
