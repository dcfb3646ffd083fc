package jupyter

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/sandgate/sandgate/gateway/jupyter/contents"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// homeName returns the name of the session whose files are those of the server-wide server: the home
// session of a user. Names are unique in a tenant.
func homeName(who noderpc.Principal) string {
	if who.Subject == "" {
		return "jupyter"
	}
	sum := sha256.Sum256([]byte(who.Subject))
	return "jupyter-" + hex.EncodeToString(sum[:8])
}

// home returns the id of the home session; empty if there is none.
func (s *Surface) home(r *http.Request) (string, error) {
	var v protocol.Session
	err := s.call(r, protocol.OpSessionFind,
		protocol.SessionName{Name: homeName(placed(r).who)}, &v)
	if fault.Is(err, fault.NotFound) || err == nil && v.State == "lost" {
		return "", nil
	}
	return v.ID, err
}

// ensureHome returns the id of the home session, which it creates if there is none. The kernel of a
// new session ends, because no notebook has it.
func (s *Surface) ensureHome(r *http.Request) (string, error) {
	var v protocol.Ensured
	err := s.call(r, protocol.OpSessionEnsure, protocol.SessionCreate{
		Name: homeName(placed(r).who), Labels: map[string]string{labelServer: homeFiles},
	}, &v)
	if err != nil || !v.Created {
		return v.ID, err
	}
	for _, k := range kernelsOf(v.Session) {
		if err := s.closeKernel(r, &k); err != nil {
			return "", err
		}
	}
	return v.ID, nil
}

// sessionOf returns the session that a path of the server is in, and the path there. At the
// server-wide server a path without the id of a session is in the home session: the session is empty
// then.
func (p *place) sessionOf(path string) (session, inner string) {
	path = strings.Trim(path, "/")
	if p.session != "" {
		return p.session, path
	}
	first, rest, _ := strings.Cut(path, "/")
	if strings.HasPrefix(first, sessionPrefix) && surface.ValidID(first) {
		return first, rest
	}
	return "", path
}

// sessionOfDocument returns the session in which the kernel of a document starts; empty means a new
// one. A document of the home session is a file there: clients also name documents that they have
// themselves.
func (s *Surface) sessionOfDocument(r *http.Request, path string) (session, inner string,
	err error,
) {
	session, inner = placed(r).sessionOf(path)
	if session != "" || inner == "" || !contents.Valid(inner) {
		return session, inner, nil
	}
	home, err := s.home(r)
	if err != nil || home == "" {
		return "", "", err
	}
	var f protocol.File
	err = s.call(r, protocol.OpFileStat, protocol.FileStat{
		FileRef: protocol.FileRef{Session: home, Path: inner},
	}, &f)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.SandboxLost) {
		return "", "", nil
	}
	return home, inner, err
}
