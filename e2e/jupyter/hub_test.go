package jupyter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/internal/testenv"
)

// hubOverrides are the settings of a test, after those that the guide has.
const hubOverrides = `
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = os.getcwd() + "/{username}"
c.Spawner.args.append("--allow-root")
c.JupyterHub.bind_url = "http://127.0.0.1:%d"
c.JupyterHub.hub_port = %d
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:%d"
# A busy machine takes longer to start Python programs.
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 120}
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
`

// startHub starts JupyterHub with the configuration of the guide, and returns its address.
func startHub(t *testing.T, sandgate string, keys map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	config, err := os.ReadFile("../../deploy/jupyterhub/jupyterhub_config.py")
	check(t, err)
	port := freePort(t)
	config = append(config, fmt.Sprintf(hubOverrides, port, freePort(t), freePort(t))...)
	check(t, os.WriteFile(filepath.Join(dir, "config.py"), config, 0o600))
	text, err := json.Marshal(keys)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "keys.json"), text, 0o600))
	var log bytes.Buffer
	cmd := exec.CommandContext(deadline(t), "/usr/bin/jupyterhub", "-f", "config.py")
	cmd.Dir = dir
	// Another Node.js than Debian's does not know where Debian's packages are.
	cmd.Env = append(os.Environ(), "NODE_PATH=/usr/share/nodejs", "SANDGATE_URL="+sandgate,
		"SANDGATE_KEYS="+filepath.Join(dir, "keys.json"))
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it ends the servers of the users
		_ = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			t.Log(log.String())
		}
	})
	address := fmt.Sprintf("http://%s", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
	testenv.Eventually(t, "JupyterHub answers", func() bool {
		r, err := http.Get(address + "/hub/api")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return address
}

// logIn logs a user in, starts the user's server and returns a token for it.
func logIn(t *testing.T, hub, name string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check(t, err)
	browser := &http.Client{
		Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	call := func(path, body, kind string, want int, v any) {
		t.Helper()
		r, err := http.NewRequestWithContext(deadline(t), "POST", hub+path,
			strings.NewReader(body))
		check(t, err)
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Referer", hub+"/hub/home")
		resp, err := browser.Do(r)
		check(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != want {
			t.Fatalf("POST %s: status %d", path, resp.StatusCode)
		}
		if v != nil {
			check(t, json.NewDecoder(resp.Body).Decode(v))
		}
	}
	form := url.Values{"username": {name}, "password": {"x"}}.Encode()
	call("/hub/login", form, "application/x-www-form-urlencoded", http.StatusFound, nil)
	api := "/hub/api/users/" + name
	call(api+"/server", "", "application/json", http.StatusCreated, nil)
	var made struct{ Token string }
	call(api+"/tokens", "{}", "application/json", http.StatusCreated, &made)
	return made.Token
}

// TestHub: JupyterHub with the guide's configuration logs users in and starts their servers, whose
// kernels are Sandgate's. No user sees the kernel of another.
func TestHub(t *testing.T) {
	t.Parallel()
	s := server(t)
	keys := map[string]string{}
	for _, name := range []string{"ann", "bob"} {
		var k struct{ Secret string }
		post(t, s.URL+"/v1/keys", s.Token,
			fmt.Sprintf(`{"role": "owner", "tenant": "hub-%s"}`, name), &k)
		keys[name] = k.Secret
	}
	hub := startHub(t, s.URL, keys)
	tokens, seen := map[string]string{}, map[string]bool{}
	for name := range keys {
		tokens[name] = logIn(t, hub, name)
		checks(t, &e2e.Server{URL: hub, Token: tokens[name]}, "@jupyterlab/services",
			"/user/"+name+"/", "hub")
	}
	for name, token := range tokens {
		auth := header("Authorization", "token "+token)
		var all, direct []struct{ ID string }
		request(t, "GET", hub+"/user/"+name+"/api/kernels", auth, &all)
		request(t, "GET", s.URL+"/jupyter/api/kernels",
			header("Authorization", "token "+keys[name]), &direct)
		if len(all) != 1 || len(direct) != 1 || all[0] != direct[0] || seen[all[0].ID] {
			t.Fatalf("%s sees the kernels %v, and %v at Sandgate", name, all, direct)
		}
		seen[all[0].ID] = true
		for other := range tokens {
			r := request(t, "GET", hub+"/user/"+other+"/api/kernels", auth, nil)
			if other != name && r.StatusCode != http.StatusForbidden {
				t.Errorf("%s at the server of %s: status %d", name, other, r.StatusCode)
			}
		}
	}
}
