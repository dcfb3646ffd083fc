package control

import (
	"net/http"

	"github.com/sandgate/sandgate/gateway/e2b/templates"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
)

// volumeBody is a volume. Its id is its name.
type volumeBody struct {
	ID   string `json:"volumeID"`
	Name string `json:"name"`
}

// volumeToken is a volume with the token for its content. The field is required; this server issues
// no such tokens.
type volumeToken struct {
	volumeBody
	Token string `json:"token"`
}

// createVolume creates a volume.
func (s catalog) createVolume(w http.ResponseWriter, r *http.Request) error {
	var p struct {
		Name string `json:"name"`
	}
	if err := decode(r, &p, false); err != nil {
		return err
	}
	var v protocol.Volume
	if err := s.call(r, protocol.OpVolumeCreate, protocol.VolumeCreate{Name: p.Name},
		&v); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusCreated, volumeToken{volumeBody{v.Name, v.Name}, "none"})
}

// volumes answers with the caller's volumes.
func (s catalog) volumes(w http.ResponseWriter, r *http.Request) error {
	var list protocol.VolumeList
	if err := s.call(r, protocol.OpVolumeList, struct{}{}, &list); err != nil {
		return err
	}
	all := []volumeBody{}
	for _, v := range list.Volumes {
		all = append(all, volumeBody{v.Name, v.Name})
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

// getVolume answers with one volume.
func (s catalog) getVolume(w http.ResponseWriter, r *http.Request) error {
	var v protocol.Volume
	if err := s.call(r, protocol.OpVolumeGet, protocol.VolumeRef{Name: templates.Param(r, "id")},
		&v); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, volumeToken{volumeBody{v.Name, v.Name}, "none"})
}

// deleteVolume deletes a volume that no sandbox uses.
func (s catalog) deleteVolume(w http.ResponseWriter, r *http.Request) error {
	if err := s.call(r, protocol.OpVolumeDelete, protocol.VolumeRef{Name: templates.Param(r, "id")},
		nil); err != nil {
		return err
	}
	return noContent(w)
}

// refusal returns a handler of routes that this server refuses.
func refusal(what string) handler {
	return func(http.ResponseWriter, *http.Request) error {
		return unsupported("", "%s", what)
	}
}
