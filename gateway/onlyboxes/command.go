package onlyboxes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/processlog"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The bounds of a command.
const (
	defaultTimeout = 2 * time.Minute
	endGrace       = 20 * time.Second
	defaultLease   = 15 * time.Minute
	maxLease       = 24 * time.Hour
	maxVariables   = 64
	tag            = "onlyboxes"
	// killAfter is how long a command may take to end itself after its time, in seconds.
	killAfter = "5"
	// timedOut is the exit status of a command whose time was over.
	timedOut = 124
)

// npx is the body of a function of Bash, which Bash takes from its environment. Clients run TypeScript
// by npx --yes tsx, which would download tsx. Without tsx in the image, Node itself runs TypeScript.
const npx = `() {
  if [ "$1 $2" = "--yes tsx" ] && ! command -v tsx >/dev/null; then
    shift 2
    node --disable-warning=ExperimentalWarning --experimental-transform-types "$@"
  else
    command npx "$@"
  fi
}`

// command is a command and its session, as a client states them.
type command struct {
	Command string            `json:"command"`
	Session string            `json:"session_id"`
	Create  bool              `json:"create_if_missing"`
	Lease   int64             `json:"lease_ttl_sec"`
	Timeout int64             `json:"timeout_ms"`
	Env     map[string]string `json:"env"`

	timeout time.Duration
}

// result is the result of a command.
type result struct {
	Session   string `json:"session_id"`
	Created   bool   `json:"created"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Code      int    `json:"exit_code"`
	StdoutCut bool   `json:"stdout_truncated"`
	StderrCut bool   `json:"stderr_truncated"`
	Lease     int64  `json:"lease_expires_unix_ms"`
}

// decode reads the JSON body of a request. It ignores unknown fields.
func decode(r *http.Request, v any) error {
	err := json.NewDecoder(r.Body).Decode(v)
	if err == nil || fault.Is(err, fault.TooLarge) {
		return err
	}
	return &fault.Error{
		Kind: fault.Malformed, Op: "onlyboxes.decode",
		Message: "the body is not a JSON object of this request", Err: err,
	}
}

// check checks a command and sets its time. A command without a session gets a new one.
func (s *Surface) check(c *command) error {
	const op = "onlyboxes.command"
	switch {
	case strings.TrimSpace(c.Command) == "" || len(c.Command) > maxCommand ||
		strings.ContainsRune(c.Command, 0):
		return fault.Invalid(op, "command", "a command has 1 to %d bytes without NUL", maxCommand)
	case c.Timeout < 0:
		return fault.Invalid(op, "timeout_ms", "it is in milliseconds, from 0")
	case c.Lease < 0 || c.Lease > int64(maxLease/time.Second):
		return fault.Invalid(op, "lease_ttl_sec", "it is from 0 to %d", int64(maxLease/time.Second))
	case len(c.Env) > maxVariables:
		return fault.Invalid(op, "env", "a command has at most %d variables", maxVariables)
	}
	c.timeout = s.timeout(c.Timeout)
	if c.Session == "" {
		c.Session, c.Create = "obx-"+rand.Text(), true
	}
	return nil
}

// timeout returns the time of a request that asks for some milliseconds; 0 means the usual time.
func (s *Surface) timeout(milliseconds int64) time.Duration {
	asked := defaultTimeout
	if milliseconds > 0 {
		asked = time.Duration(min(milliseconds, maxLease.Milliseconds())) * time.Millisecond
	}
	if most := s.cfg.Settings.Timeout; most > 0 {
		asked = min(asked, most)
	}
	return max(asked, 100*time.Millisecond)
}

// findSession returns the session of a command. Errors: NotFound if there is none and the command may
// not create one.
func (s *Surface) findSession(ctx context.Context, who noderpc.Principal, c *command,
) (protocol.Ensured, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	sessions := conversation.Sessions{Node: s.cfg.Node}
	if c.Create {
		return sessions.Ensure(ctx, who, place(c.Session), conversation.PolicyOf(s.cfg.Settings))
	}
	v, err := sessions.Find(ctx, who, place(c.Session))
	if fault.Is(err, fault.NotFound) || err == nil && v.State == "lost" {
		err = &fault.Error{
			Kind: fault.NotFound, Op: "onlyboxes.session", Field: fieldSession,
			Message: "there is no such session, or it has ended",
		}
	}
	return protocol.Ensured{Session: v}, err
}

// terminal runs a command to its end. Commands of one session take turns.
func (s *Surface) terminal(w http.ResponseWriter, r *http.Request) error {
	var c command
	if err := decode(r, &c); err != nil {
		return err
	}
	if err := s.check(&c); err != nil {
		return err
	}
	ctx, who := r.Context(), surface.CallOf(r).Who
	v, err := s.findSession(ctx, who, &c)
	if err != nil {
		return err
	}
	release, err := s.turns.TakeTurn(ctx, who, v.ID, c.timeout)
	if err != nil {
		return gone(r, err)
	}
	defer release()
	client, err := s.start(ctx, who, v.ID, &c)
	if err != nil {
		return err
	}
	out, err := processlog.Read(ctx, client, maxOutput, c.timeout+endGrace)
	if err != nil || out.Exit == nil {
		s.endCommand(who, v.ID, client.Channel())
	}
	if err != nil {
		return gone(r, err)
	}
	if out.Exit == nil || out.Exit.Code == timedOut {
		return fault.New(fault.DeadlineExceeded, "onlyboxes.command",
			"the command was ended: it ran for over %s", c.timeout)
	}
	return surface.WriteJSON(w, http.StatusOK, s.result(&c, v.Created, out))
}

// gone returns the error of a client that has disconnected, if that is the reason of err.
func gone(r *http.Request, err error) error {
	if r.Context().Err() != nil {
		return surface.ErrGone()
	}
	return err
}

// start starts a command. The session itself ends it after its time.
func (s *Surface) start(ctx context.Context, who noderpc.Principal, session string, c *command,
) (*processclient.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	link, err := s.cfg.Node.Open(ctx, who)
	if err != nil {
		return nil, err
	}
	seconds := strconv.FormatFloat(c.timeout.Seconds(), 'f', 3, 64)
	return processclient.Start(ctx, link, protocol.ChannelOpen{
		Session: session, Env: c.Env, Tag: tag,
		Argv: []string{
			"timeout", "-k", killAfter, seconds, "env", "BASH_FUNC_npx%%=" + npx, "bash", "-c",
			c.Command,
		},
	}, nil)
}

// endCommand ends a command and everything that it started.
func (s *Surface) endCommand(who noderpc.Principal, session, channel string) {
	ctx, cancel := context.WithTimeout(context.Background(), endGrace)
	defer cancel()
	err := s.cfg.Node.Call(ctx, who, protocol.OpChannelClose,
		protocol.ChannelRef{Session: session, Channel: channel}, nil)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.SandboxLost) {
		s.cfg.Log.Warn("a command could not be ended", "session", session, "error", err)
	}
}

// result returns the result of a command that has ended.
func (s *Surface) result(c *command, created bool, out processlog.Output) *result {
	lease := s.cfg.Settings.IdleDelete
	if lease == 0 {
		lease = max(defaultLease, time.Duration(c.Lease)*time.Second)
	}
	r := &result{
		Session: c.Session, Created: created, Stdout: out.Stdout, Stderr: out.Stderr,
		StdoutCut: out.StdoutCut, StderrCut: out.StderrCut,
		Lease: time.Now().Add(lease).UnixMilli(),
	}
	if r.Code = out.Exit.Code; r.Code < 0 {
		r.Code = 137 // the sandbox has ended with the command
	}
	return r
}
