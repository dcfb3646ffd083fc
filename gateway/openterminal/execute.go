package openterminal

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/process"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// normalWait is how long a request without wait waits for the end of a process.
	normalWait = 10 * time.Second
	maxWait    = 280 * time.Second // clients give a request up after 300 s
	// killGrace is how long a process may live on after SIGTERM.
	killGrace = 3 * time.Second
	// maxOutput is about how many bytes of output an answer has.
	maxOutput = 64 << 10
)

// The values of status.
const (
	statusRunning = "running"
	statusDone    = "done"
	statusKilled  = "killed"
)

// merged begins each command. It keeps the output and the errors in their order.
const merged = "exec 2>&1; "

// listed is a process in a list.
type listed struct {
	ID       string `json:"id"`
	Command  string `json:"command"`
	Status   string `json:"status"`
	ExitCode *int   `json:"exit_code"`
}

// entry is a piece of output.
type entry struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// answer describes a process with a part of its output.
type answer struct {
	listed
	Output []entry `json:"output"`
	// Truncated is true if the answer leaves output out, before or after the part.
	Truncated bool `json:"truncated"`
	// NextOffset is the offset of the output that follows.
	NextOffset int64 `json:"next_offset"`
	// LostBytes counts output that is no longer kept.
	LostBytes int64 `json:"lost_bytes,omitempty"`
}

func describe(ch protocol.Channel, exit *protocol.Exit) listed {
	l := listed{
		ID: ch.ID, Command: strings.TrimPrefix(process.Command(ch), merged), Status: statusRunning,
	}
	if exit == nil {
		return l
	}
	l.Status = statusDone
	if exit.Signal != "" || exit.Code < 0 {
		l.Status = statusKilled
	}
	if exit.Code >= 0 {
		code := exit.Code
		l.ExitCode = &code
	}
	return l
}

// runCommand starts a command and waits for its end.
func runCommand(w http.ResponseWriter, r *http.Request, c *call) error {
	var p struct {
		Command string            `json:"command"`
		Cwd     string            `json:"cwd"`
		Env     map[string]string `json:"env"`
	}
	if err := body(r, &p); err != nil {
		return err
	}
	if p.Command == "" {
		return fault.Invalid("openterminal.execute", "command", "the parameter command is missing")
	}
	part, err := c.part(r)
	if err != nil {
		return err
	}
	part.offset = 0 // the output of a new process
	open := protocol.ChannelOpen{
		Session: c.session.ID, Cwd: c.folder(), Env: p.Env, Stdin: true,
	}
	if p.Cwd != "" {
		if open.Cwd, err = c.path("cwd", p.Cwd); err != nil {
			return err
		}
	}
	var prefix []string
	if limit := c.cfg.Settings.Timeout; limit > 0 {
		prefix = []string{"timeout", "-k", "5", fmt.Sprint(int(limit.Seconds()))}
	}
	ch, err := c.processes().Start(r.Context(), open, merged+p.Command, prefix...)
	if err != nil {
		return err
	}
	return c.answer(w, r, ch.ID, part)
}

// part says how long a request waits and which output it gets.
type part struct {
	wait   time.Duration
	offset int64
	tail   int // lines; 0 means no tail
}

func (c *call) part(r *http.Request) (p part, err error) {
	if p.wait, err = wait(r); err != nil {
		return p, err
	}
	if p.tail, err = number(r, "tail", 0, maxOutput); err != nil {
		return p, err
	}
	if text := query(r, "offset"); text != "" && text != "0" {
		offset, err := number(r, "offset", 0, 1<<60)
		p.offset = int64(offset)
		return p, err
	}
	return p, nil
}

// answer waits for the end of a process and answers with a part of its output.
func (c *call) answer(w http.ResponseWriter, r *http.Request, id string, p part) error {
	processes := c.processes()
	exit, err := processes.Wait(r.Context(), c.session.ID, id, p.wait)
	if err != nil {
		return noProcess(err, id)
	}
	attach := protocol.Attach{
		Session: c.session.ID, Channel: id, Offset: p.offset, ReadOnly: true,
	}
	if p.tail > 0 {
		attach.Offset = -maxOutput
	}
	out, err := processes.Read(r.Context(), attach, 0, maxOutput)
	if err != nil {
		return noProcess(err, id)
	}
	if exit == nil {
		exit = out.Channel.Exit
	}
	a := answer{
		listed: describe(out.Channel, exit), Output: []entry{}, Truncated: out.More,
		NextOffset: out.Next, LostBytes: out.Lost,
	}
	text := kernelclient.Plain(out.Text)
	if p.tail > 0 {
		whole := text
		text = lastLines(text, p.tail)
		a.Truncated = len(text) < len(whole) || out.Channel.End > maxOutput
	}
	if text != "" {
		a.Output = append(a.Output, entry{"output", text})
	}
	return surface.WriteJSON(w, http.StatusOK, a)
}

// lastLines returns the last n lines of a text.
func lastLines(text string, n int) string {
	at := len(strings.TrimSuffix(text, "\n"))
	for range n {
		if at = strings.LastIndexByte(text[:at], '\n'); at < 0 {
			return text
		}
	}
	return text[at+1:]
}

// listProcesses lists the processes that were started.
func listProcesses(w http.ResponseWriter, r *http.Request, c *call) error {
	all := []listed{}
	if c.session.ID != "" {
		list, err := c.processes().List(r.Context(), c.session.ID)
		if err != nil {
			return err
		}
		for _, ch := range list {
			all = append(all, describe(ch, ch.Exit))
		}
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

// named returns the process that the path of a request names. Errors: NotFound.
func (c *call) named(r *http.Request) (string, error) {
	id := r.PathValue("process")
	if c.session.ID == "" || !surface.ValidID(id) || !strings.HasPrefix(id, "p") {
		return id, noProcess(fault.New(fault.NotFound, "openterminal.process", "none"), id)
	}
	return id, nil
}

func processStatus(w http.ResponseWriter, r *http.Request, c *call) error {
	id, err := c.named(r)
	if err != nil {
		return err
	}
	p, err := c.part(r)
	if err != nil {
		return err
	}
	return c.answer(w, r, id, p)
}

// killProcess ends a process. Its output stays.
func killProcess(w http.ResponseWriter, r *http.Request, c *call) error {
	id, err := c.named(r)
	if err != nil {
		return err
	}
	force, err := flag(r, "force", false)
	if err != nil {
		return err
	}
	signal := "SIGTERM"
	if force {
		signal = "SIGKILL"
	}
	if _, err := c.processes().Kill(r.Context(), c.session.ID, id, signal, killGrace); err != nil {
		return noProcess(err, id)
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]string{"status": statusKilled})
}
