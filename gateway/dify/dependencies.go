package dify

import (
	"net/http"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/surfaces"
)

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
	return surface.WriteJSON(w, http.StatusOK, answer{
		Message: messageSuccess, Data: map[string]any{"dependencies": all.Packages},
	})
}
