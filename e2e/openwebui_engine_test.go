package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// engineRun is a kernel of Open WebUI's engine of code blocks, which makes a kernel for each run.
type engineRun struct {
	c    *openWebUI
	id   string
	conn *websocket.Conn
}

// engineResult has the parts of messages that Open WebUI uses.
type engineResult struct{ stdout, result, traceback string }

func (c *openWebUI) engine() *engineRun {
	c.Helper()
	base, token := server.URL+"/jupyter/api/kernels", "?token="+server.Token
	res, err := http.Post(base+token, "application/octet-stream", nil)
	if err != nil {
		c.Fatal(err)
	}
	var kernel struct{ ID string }
	err = json.NewDecoder(res.Body).Decode(&kernel)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != 201 {
		c.Fatalf("%d %v", res.StatusCode, err)
	}
	ws, _, err := websocket.Dial(c.ctx,
		"ws"+strings.TrimPrefix(base, "http")+"/"+kernel.ID+"/channels"+token, nil)
	if err != nil {
		c.Fatal(err)
	}
	ws.SetReadLimit(1 << 20) // that of Open WebUI
	return &engineRun{c, kernel.ID, ws}
}

// send sends code.
func (x *engineRun) send(code string) {
	x.c.Helper()
	text, _ := json.Marshal(code)
	err := x.conn.Write(x.c.ctx, websocket.MessageText, []byte(`{"header":{"msg_id":"m",`+
		`"msg_type":"execute_request","username":"user","session":"s","date":"","version":"5.3"},`+
		`"parent_header":{},"metadata":{},"content":{"code":`+string(text)+`,"silent":false,`+
		`"store_history":true,"user_expressions":{},"allow_stdin":false,"stop_on_error":true},`+
		`"channel":"shell"}`))
	if err != nil {
		x.c.Fatal(err)
	}
}

// next adds the next message of the code to a result. It returns false after the last one.
func (x *engineRun) next(r *engineResult) bool {
	x.c.Helper()
	_, data, err := x.conn.Read(x.c.ctx)
	if err != nil {
		x.c.Fatal(err)
	}
	var m struct {
		Type   string `json:"msg_type"`
		Parent struct {
			MsgID string `json:"msg_id"`
		} `json:"parent_header"`
		Content struct {
			Text      string
			Data      map[string]any
			Traceback []string
			State     string `json:"execution_state"`
		}
	}
	if err := json.Unmarshal(data, &m); err != nil {
		x.c.Fatal(err)
	}
	if m.Parent.MsgID != "m" {
		return true
	}
	switch m.Type {
	case "stream":
		r.stdout += m.Content.Text
	case "execute_result", "display_data":
		if picture, ok := m.Content.Data["image/png"]; ok {
			r.result += "png " + fmt.Sprint(picture)
		} else {
			r.result += fmt.Sprint(m.Content.Data["text/plain"])
		}
	case "error":
		r.traceback = strings.Join(m.Content.Traceback, "\n")
	case "status":
		return m.Content.State != "idle"
	}
	return true
}

// end deletes the kernel.
func (x *engineRun) end() {
	x.c.Helper()
	_ = x.conn.CloseNow()
	req, _ := http.NewRequestWithContext(x.c.ctx, "DELETE",
		server.URL+"/jupyter/api/kernels/"+x.id+"?token="+server.Token, nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != 204 {
		x.c.Fatalf("%v %v", res, err)
	}
	_ = res.Body.Close()
}

// jupyterEngine runs code as the engine of code blocks does: output, a value, an error, a picture, a
// large output, and a time-out, after which Open WebUI deletes the busy kernel.
func jupyterEngine(t *testing.T, c *openWebUI) {
	run := func(code string) (r engineResult) {
		t.Helper()
		x := c.engine()
		defer x.end()
		for x.send(code); x.next(&r); {
		}
		return r
	}
	if r := run("print(6*7)\n'a' * 2"); r != (engineResult{stdout: "42\n", result: "'aa'"}) {
		t.Errorf("%+v", r)
	}
	if r := run("print(1)\n1/0"); r.stdout != "1\n" || !strings.Contains(r.traceback, "ZeroDivisionError") {
		t.Errorf("an error: %+v", r)
	}
	r := run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
	if !strings.HasPrefix(r.result, "png iVBOR") {
		t.Errorf("a picture: %+v", r)
	}
	if r := run("print('x' * 3_000_000)"); len(r.stdout) != 3_000_001 {
		t.Errorf("a large output: %d bytes", len(r.stdout))
	}
	x := c.engine()
	x.send("print('begun', flush=True)\nwhile True: pass")
	for r := (engineResult{}); r.stdout != "begun\n"; {
		x.next(&r)
	}
	x.end()
}
