package dify

import (
	"net/http"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/surfaces"
)

// dependency is a package that programs can import.
type dependency struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// dependencies lists the packages of Python that programs can import beside the standard library.
// Dify asks for Python only.
func (s *Surface) dependencies(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Get("language") != languagePython {
		return errLanguage()
	}
	all, err := s.cfg.Programs.Packages(r.Context(), oneshot.Program{
		Who: surface.CallOf(r).Who, Surface: surfaces.Dify, Settings: s.cfg.Settings,
	})
	if err != nil {
		return err
	}
	list := make([]dependency, len(all))
	for i, p := range all {
		list[i] = dependency{p.Name, p.Version}
	}
	return surface.WriteJSON(w, http.StatusOK, answer{
		Message: messageSuccess, Data: map[string]any{"dependencies": list},
	})
}
