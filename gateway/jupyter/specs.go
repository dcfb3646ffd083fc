package jupyter

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/gateway/jupyter/channels"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// defaultSpec is the kernelspec of a request that names none.
const defaultSpec = "python3"

// logoFile is the file of a kernelspec's logo.
const logoFile = "logo-svg.svg"

type spec struct {
	Name      string            `json:"name"`
	Spec      specBody          `json:"spec"`
	Resources map[string]string `json:"resources"`
}

type specBody struct {
	Argv      []string          `json:"argv"`
	Env       map[string]string `json:"env"`
	Display   string            `json:"display_name"`
	Language  string            `json:"language"`
	Interrupt string            `json:"interrupt_mode"`
	Metadata  struct{}          `json:"metadata"`
}

// specName returns the name of a language's kernelspec. Notebooks contain such names.
func specName(language string) string {
	if language == "python" {
		return defaultSpec
	}
	return channels.LanguageName(language)
}

func (p *place) specOf(l protocol.Language) spec {
	name := specName(l.Name)
	return spec{
		Name: name, Resources: map[string]string{
			"logo-svg": p.base + "/kernelspecs/" + name + "/" + logoFile,
		},
		Spec: specBody{
			Argv: []string{"sandgate", "kernel", l.Name}, Env: map[string]string{},
			Display: l.Display, Language: channels.LanguageName(l.Name), Interrupt: "message",
		},
	}
}

// languageOf returns the language of a kernelspec. A name that is unknown may be the language, or
// one of its aliases. Errors: InvalidArgument.
func (s *Surface) languageOf(ctx context.Context, name string) (protocol.Language, error) {
	all, err := s.cfg.Languages(ctx)
	if err != nil {
		return protocol.Language{}, err
	}
	if name == "" {
		name = defaultSpec
	}
	name = strings.ToLower(name)
	for _, same := range []func(l protocol.Language) bool{
		func(l protocol.Language) bool { return specName(l.Name) == name },
		func(l protocol.Language) bool {
			return l.Name == name || slices.Contains(l.Aliases, name)
		},
	} {
		if i := slices.IndexFunc(all, same); i >= 0 {
			return all[i], nil
		}
	}
	return protocol.Language{}, fault.Invalid("jupyter.spec", "name",
		"there is no kernelspec %.64q", name)
}

func (s specAPI) listSpecs(w http.ResponseWriter, r *http.Request) error {
	all, err := s.cfg.Languages(r.Context())
	if err != nil {
		return err
	}
	specs := map[string]spec{}
	for _, l := range all {
		specs[specName(l.Name)] = placed(r).specOf(l)
	}
	first := defaultSpec
	if _, ok := specs[first]; !ok && len(all) > 0 {
		first = specName(all[0].Name)
	}
	return surface.WriteJSON(w, http.StatusOK,
		map[string]any{"default": first, "kernelspecs": specs})
}

// namedLanguage returns the language of the kernelspec that a path names. Errors: NotFound.
func (s specAPI) namedLanguage(r *http.Request) (protocol.Language, error) {
	l, err := s.languageOf(r.Context(), r.PathValue("name"))
	if fault.Is(err, fault.InvalidArgument) {
		err = fault.New(fault.NotFound, "jupyter.spec", "there is no such kernelspec")
	}
	return l, err
}

func (s specAPI) getSpec(w http.ResponseWriter, r *http.Request) error {
	l, err := s.namedLanguage(r)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, placed(r).specOf(l))
}

// specFile sends the logo of a kernelspec: the first letters of its name.
func (s specAPI) specFile(w http.ResponseWriter, r *http.Request) error {
	l, err := s.namedLanguage(r)
	if err != nil {
		return err
	}
	if r.PathValue("file") != logoFile {
		return fault.New(fault.NotFound, "jupyter.spec", "there is no such file")
	}
	name := []rune(l.Display)
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "max-age=3600")
	_, _ = fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">`+
		`<rect width="64" height="64" rx="10" fill="#1f4b7a"/><text x="32" y="43" font-size="30" `+
		`font-family="sans-serif" text-anchor="middle" fill="#fff">%s</text></svg>`,
		html.EscapeString(string(name[:min(len(name), 2)]))) // a client that has gone needs none
	return nil
}
