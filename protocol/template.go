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

// TemplateSpec says what a template is made from. It is the file template.json
// that a template's tar begins with. What follows are regular files: below
// files/ those that are put into the sandbox, by their absolute paths; below
// packages/ those that packages are installed from; below oci/ an image.
type TemplateSpec struct {
	Description string `json:"description,omitempty"`
	// Languages are those that it offers; the first one is warm. None means
	// all of the image, and that python is warm where there is one.
	Languages []string `json:"languages,omitempty"`
	// Env is set for all that runs in it.
	Env map[string]string `json:"env,omitempty"`
	// Limits are those of its sessions that do not say.
	Limits Limits `json:"limits,omitzero"`
	// Packages are those of python, javascript, go, php and java, as the
	// language's package manager names them: at most 256, each of at most 200
	// bytes. They come from the files below packages/ and, with BuildNetwork,
	// from the languages' indexes.
	Packages map[string][]string `json:"packages,omitempty"`
	// Run are commands of the shell, each with the user's rights and in the
	// user's home, carried out in order before the language starts.
	Run []string `json:"run,omitempty"`
	// BuildNetwork is what the packages' managers and Run may reach outside
	// while the template is built. Its sessions have nothing of it.
	BuildNetwork *Network `json:"build_network,omitempty"`
	// SessionNetwork is what its sessions may reach that do not say.
	SessionNetwork *Network `json:"session_network,omitempty"`
	// Volumes are those that its sessions have, of their own tenant and beside
	// those that they ask for themselves. They need not be there before.
	Volumes []Mount `json:"volumes,omitempty"`
	// Code is run by the warm language, and is there in each session.
	Code string `json:"code,omitempty"`
	// Bare leaves out what the warm language loads for those who may want it,
	// numpy, pandas and matplotlib in Python: a third of the memory, and of the
	// disk in hibernation, for sessions that load it themselves or not at all.
	Bare bool `json:"bare,omitempty"`
}

// Template is a template as clients see it.
type Template struct {
	Name string       `json:"name"`
	Spec TemplateSpec `json:"spec"`
	// State is building, ready or failed. One that is not ready is built by
	// the first session that asks for it.
	State string `json:"state"`
	// Error says why it failed, and Log is the end of what its commands have
	// printed, at most 64 KiB.
	Error string `json:"error,omitempty"`
	Log   string `json:"log,omitempty"`
	// Languages are those that can be used in it.
	Languages []string `json:"languages"`
	CreatedMS int64    `json:"created_ms"`
	// Bytes is what its files and image take of the disk, without the snapshot.
	Bytes int64 `json:"bytes"`
	// Ready is how many sandboxes wait in the pool, and Size how many are
	// wanted there.
	Ready int `json:"ready"`
	Size  int `json:"size"`
}

// TemplateList is the caller's templates, by name.
type TemplateList struct {
	Templates []Template `json:"templates"`
}
