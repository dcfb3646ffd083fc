package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/coder/websocket"
)

// jupyter is Debian's jupyter-server with ipykernel, for comparison.
type jupyter struct {
	cmd *exec.Cmd
	dir string
	jupyterAPI
}

// jupyterAPI is Jupyter's interface of a server: that of jupyter-server, or Sandgate's.
type jupyterAPI struct {
	base  string // host, port and path
	token string
}

const jupyterToken = "bench"

func startJupyter(ctx context.Context) (*jupyter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir, err := os.MkdirTemp("", "bench-jupyter-")
	if err != nil {
		return nil, err
	}
	j := &jupyter{
		dir: dir, jupyterAPI: jupyterAPI{fmt.Sprintf("127.0.0.1:%d", port), jupyterToken},
	}
	j.cmd = exec.Command("/usr/bin/python3", "/usr/bin/jupyter-server", "--no-browser",
		"--allow-root",
		fmt.Sprintf("--port=%d", port), "--ip=127.0.0.1", "--ServerApp.token="+jupyterToken,
		"--ServerApp.root_dir="+dir,
		// Its rate limits would drop output. Without them the comparison is fair.
		"--ServerApp.iopub_data_rate_limit=1e12", "--ServerApp.iopub_msg_rate_limit=1e12")
	j.cmd.Dir = dir
	j.cmd.Env = append(os.Environ(), "HOME="+dir, "JUPYTER_RUNTIME_DIR="+dir)
	if err := j.cmd.Start(); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		if _, err := j.rest(ctx, "GET", "/api", nil); err == nil {
			return j, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	j.close()
	return nil, fmt.Errorf("jupyter-server did not start: %w", ctx.Err())
}

func (j *jupyter) close() {
	j.cmd.Process.Signal(os.Interrupt)
	j.cmd.Process.Kill()
	j.cmd.Wait()
	os.RemoveAll(j.dir)
}

func (j *jupyterAPI) rest(ctx context.Context, method, path string, body any) (map[string]any,
	error,
) {
	b, _ := json.Marshal(body)
	req, err := http.NewRequestWithContext(ctx, method, "http://"+j.base+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "token "+j.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	var m map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// jupyterKernel is one kernel with its WebSocket.
type jupyterKernel struct {
	j    *jupyterAPI
	id   string
	conn *websocket.Conn
	n    int
}

func (j *jupyterAPI) kernel(ctx context.Context) (*jupyterKernel, error) {
	m, err := j.rest(ctx, "POST", "/api/kernels", map[string]string{"name": "python3"})
	if err != nil {
		return nil, err
	}
	k := &jupyterKernel{j: j, id: m["id"].(string)}
	k.conn, _, err = websocket.Dial(ctx, "ws://"+j.base+"/api/kernels/"+k.id+
		"/channels?session_id=bench&token="+j.token, nil)
	if err != nil {
		return nil, err
	}
	k.conn.SetReadLimit(1 << 30)
	return k, nil
}

func (k *jupyterKernel) close(ctx context.Context) {
	k.conn.CloseNow()
	k.j.rest(ctx, "DELETE", "/api/kernels/"+k.id, nil)
}

// run executes code. It returns the times to the first output and to idle, and the number of bytes
// of stream text.
func (k *jupyterKernel) run(ctx context.Context, code string) (result, error) {
	k.n++
	id := fmt.Sprintf("m%d", k.n)
	start := time.Now()
	msg, _ := json.Marshal(map[string]any{
		"header": map[string]any{
			"msg_id": id, "msg_type": "execute_request",
			"session": "bench", "username": "", "version": "5.3", "date": "",
		},
		"parent_header": map[string]any{}, "metadata": map[string]any{}, "buffers": []any{},
		"channel": "shell",
		"content": map[string]any{
			"code": code, "silent": false, "store_history": true,
			"user_expressions": map[string]any{}, "allow_stdin": false,
		},
	})
	if err := k.conn.Write(ctx, websocket.MessageText, msg); err != nil {
		return result{}, err
	}
	var r result
	for {
		_, b, err := k.conn.Read(ctx)
		if err != nil {
			return r, err
		}
		var m struct {
			Type   string `json:"msg_type"`
			Parent struct {
				ID string `json:"msg_id"`
			} `json:"parent_header"`
			Content struct {
				Text  string `json:"text"`
				State string `json:"execution_state"`
			} `json:"content"`
		}
		if err := json.Unmarshal(b, &m); err != nil {
			return r, err
		}
		if m.Parent.ID != id {
			continue
		}
		switch m.Type {
		case "stream":
			if r.first == 0 {
				r.first = time.Since(start)
			}
			r.bytes += int64(len(m.Content.Text))
		case "status":
			if m.Content.State == "idle" {
				r.done = time.Since(start)
				return r, nil
			}
		}
	}
}
