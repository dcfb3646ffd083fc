package jupyter

import (
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The life of a token in a path.
const (
	defaultLife = 24 * time.Hour
	maxLife     = 30 * 24 * time.Hour
)

// newToken answers with a token for clients that send no credentials: it is a part of the path. The
// token of a session's server opens this server alone.
func (s aboutAPI) newToken(w http.ResponseWriter, r *http.Request) error {
	p := placed(r)
	var q struct {
		ExpiresSeconds int64 `json:"expires_seconds"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.ExpiresSeconds < 0 || q.ExpiresSeconds > int64(maxLife.Seconds()) {
		return fault.Invalid("jupyter.token", "expires_seconds",
			"a token is valid for at most %d seconds", int64(maxLife.Seconds()))
	}
	life := time.Duration(q.ExpiresSeconds) * time.Second
	if life == 0 {
		life = defaultLife
	}
	token, err := s.cfg.Auth.NewJupyterToken(p.who, p.session, life)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusCreated, map[string]any{
		"token": token, "url": surface.BaseURL(r) + tokenPrefix + token,
		"expires_seconds": int64(life.Seconds()),
	})
}
