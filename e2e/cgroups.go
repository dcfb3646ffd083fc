package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// cgroup is the name of the cgroup of the server's node. It is made from the folder of the node's
// state.
func cgroup(s *Server) string {
	sum := sha256.Sum256([]byte(filepath.Join(s.Dir, "run", "sandboxes")))
	return "node-" + hex.EncodeToString(sum[:4])
}

// Cgroups lists the cgroups of the server's node: one in each hierarchy while it runs.
func (s *Server) Cgroups() []string {
	one, _ := filepath.Glob("/sys/fs/cgroup/sandgate/" + cgroup(s))   // version 2
	all, _ := filepath.Glob("/sys/fs/cgroup/*/sandgate/" + cgroup(s)) // version 1
	return append(one, all...)
}
