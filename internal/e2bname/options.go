package e2bname

import (
	"encoding/json"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The labels of a session that hold what E2B has no other place for. Clients cannot set them.
const (
	// LabelPrefix begins these labels.
	LabelPrefix = "sandgate.e2b."
	// LabelTemplate is the name of the template that the client asked for.
	LabelTemplate = LabelPrefix + "template"
	// LabelOptions holds Options as JSON.
	LabelOptions = LabelPrefix + "options"
)

// Options are the settings of a sandbox that only this interface knows.
type Options struct {
	// PrivatePorts is set if the ports of programs need the traffic token.
	PrivatePorts bool `json:"private_ports,omitempty"`
	// Insecure is set if the client did not ask for a secure sandbox. Such a client sends no token to
	// the interpreter.
	Insecure bool `json:"insecure,omitempty"`
	// AutoResume is set if a request resumes the paused sandbox.
	AutoResume bool `json:"auto_resume,omitempty"`
	// AutoPause is set if the sandbox is paused at the end of its time, and not deleted.
	AutoPause bool `json:"auto_pause,omitempty"`
	// NoInternet is set if the client asked for no network.
	NoInternet bool `json:"no_internet,omitempty"`
}

// OptionsOf returns the options in the labels of a session.
func OptionsOf(labels map[string]string) (Options, error) {
	var o Options
	text, ok := labels[LabelOptions]
	if !ok {
		return o, nil
	}
	err := json.Unmarshal([]byte(text), &o)
	return o, fault.Wrap(fault.Internal, "sandbox.options", err)
}

// Label returns the value of LabelOptions.
func (o Options) Label() string {
	text, err := json.Marshal(o)
	if err != nil { // a struct of flags is always valid
		return "{}"
	}
	return string(text)
}
