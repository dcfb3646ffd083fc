package openterminal

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"net/http"

	"github.com/sandgate/sandgate/gateway/surface"
)

// documentJSON is the OpenAPI document. Clients make a tool of each operation, so it describes only
// what a model may use. VERSION stands for the server's version.
//
//go:embed openapi.json
var documentJSON []byte

// document answers with the OpenAPI document.
func (s *Surface) document(w http.ResponseWriter, _ *http.Request) {
	version, _ := json.Marshal(s.cfg.Version) // a string
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(bytes.Replace(documentJSON, []byte(`"VERSION"`), version, 1))
}

func health(w http.ResponseWriter, _ *http.Request) {
	_ = surface.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// features answers with the parts that the server has.
func features(w http.ResponseWriter, _ *http.Request) {
	_ = surface.WriteJSON(w, http.StatusOK, map[string]any{
		"features": map[string]bool{"terminal": true, "notebooks": false, "system": true},
	})
}

// prompt describes the sandbox for models.
const prompt = `You have a private Linux computer for this conversation, with bash, Python, Node.js
and common command line tools. Its home folder is /home/user. Files, processes and installed
packages stay between calls, and nobody else uses the computer. It may have no access to the network.

Work with the tools: run_command for commands, read_file, write_file and replace_file_content for
files, grep_search and glob_search to find them. Check the result of each step. Start servers and
other long work with run_command and wait=0, read their output with get_process_status, and end them
with kill_process. Long output is cut: continue with offset, or ask for the end with tail. Use
display_file to show a file to the user.`

func system(w http.ResponseWriter, _ *http.Request, _ *call) error {
	return surface.WriteJSON(w, http.StatusOK, map[string]string{"prompt": prompt})
}
