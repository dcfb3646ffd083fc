package librechat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/librechat/toolcalls"
	"github.com/sandgate/sandgate/gateway/sessionfile"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Bounds of programs that wait for results.
const (
	surfaceProgram = "librechat-program"
	labelRequest   = "request" // the request id of the last step, as a digest
	maxWaiting     = 10        // programs of one user that run or wait
	waitLife       = 10 * time.Minute
	programLife    = time.Hour
	stateFile      = toolcalls.Folder + "/state.json"
	maxState       = 4 << 20
)

// waiting is a program that runs or waits for results. The exported fields are a file of its session.
type waiting struct {
	Storage   string         `json:"storage"`
	Source    string         `json:"source"`
	TimeoutMS int64          `json:"timeout_ms"`
	Inputs    []waitingInput `json:"inputs"`
	Cursor    string         `json:"cursor"`
	Known     known          `json:"known"`

	name, session, channel string
	// number is the step that is being made.
	number int
}

type waitingInput struct {
	store.File
	As string `json:"as"`
}

func (p *waiting) inputs() (all []input) {
	for _, in := range p.Inputs {
		all = append(all, input{in.File, in.As})
	}
	return all
}

// programPlace is the place of the session of a program. Only its user finds it.
func programPlace(u store.User, name string) conversation.Place {
	return conversation.Place{Surface: surfaceProgram, User: u.Key, Conversation: name}
}

// sessions returns sessions of programs of a user, at most limit.
func (s *programs) sessions(ctx context.Context, u store.User, label string, limit int,
) ([]protocol.Session, error) {
	labels := []string{
		conversation.LabelSurface + ":" + surfaceProgram, conversation.LabelUser + ":" + u.Key,
	}
	if label != "" {
		labels = append(labels, label)
	}
	var list protocol.SessionList
	err := s.call(ctx, u, protocol.OpSessionList,
		protocol.SessionQuery{Labels: labels, Limit: limit}, &list)
	return list.Sessions, err
}

// startProgram creates the session of a program, and makes the program ready for its first step.
func (s *programs) startProgram(ctx context.Context, u store.User, name string, q *programRequest,
	request string,
) (*waiting, error) {
	var tools []string
	for _, t := range q.Tools {
		tools = append(tools, t.Name)
	}
	language := toolcalls.Python
	if q.Lang == toolcalls.Bash {
		language = toolcalls.Bash
	}
	functions, err := toolcalls.Functions(language, tools)
	if err != nil {
		return nil, err
	}
	inputs, err := s.resolve(ctx, u, q.Files)
	if err != nil {
		return nil, err
	}
	p := &waiting{
		Storage: store.NewID(), TimeoutMS: q.timeout.Milliseconds(),
		name: name, number: 1,
	}
	if p.session, err = s.createProgram(ctx, u, name, q, request); err != nil {
		return nil, err
	}
	g, err := s.prepare(ctx, u, place{session: p.session}, &q.request, inputs, false)
	p.Known, p.Cursor, p.Source = g.known, g.cursor, g.source
	if err != nil {
		return p, err
	}
	for _, in := range inputs {
		p.Inputs = append(p.Inputs, waitingInput{in.File, in.name})
	}
	return p, s.openProgram(ctx, u, p, q, toolcalls.Program{
		Language: language, File: folder + "/" + p.Source, Tools: functions, MaxOutput: maxOutput,
	})
}

// createProgram creates the session of a program. Errors: Exhausted if the user has too many.
func (s *programs) createProgram(ctx context.Context, u store.User, name string, q *programRequest,
	request string,
) (string, error) {
	others, err := s.sessions(ctx, u, "", maxWaiting)
	if err != nil {
		return "", err
	}
	if len(others) >= maxWaiting {
		s.cfg.Full()
		return "", &fault.Error{
			Kind: fault.Exhausted, Op: "librechat.programmatic", Cause: fault.CauseLimit,
			Message:    fmt.Sprintf("%d programs of this user run or wait for tools", maxWaiting),
			RetryAfter: 60,
		}
	}
	life := programLife
	if s.cfg.MaxLifetime > 0 {
		life = min(life, s.cfg.MaxLifetime)
	}
	policy := s.policy()
	policy.Language = q.language.name
	policy.IdleDeleteSeconds = int64((waitLife + q.timeout) / time.Second)
	create := policy.Create(programLabels(u, request))
	create.Name, create.LifetimeSeconds = programPlace(u, name).Name(u.Who), int64(life/time.Second)
	var v protocol.Session
	err = s.call(ctx, u, protocol.OpSessionCreate, create, &v)
	return v.ID, err
}

func programLabels(u store.User, request string) map[string]string {
	labels := map[string]string{
		conversation.LabelSurface: surfaceProgram, conversation.LabelUser: u.Key,
	}
	if request != "" {
		labels[labelRequest] = digest("request", u.Key, request)
	}
	return labels
}

// openProgram writes the supervisor and the state of a program, and starts the supervisor.
func (s *programs) openProgram(ctx context.Context, u store.User, p *waiting, q *programRequest,
	program toolcalls.Program,
) error {
	files, err := program.Files()
	if err != nil {
		return err
	}
	state, err := json.Marshal(p)
	if err != nil {
		return fault.Wrap(fault.Internal, "librechat.state", err)
	}
	files[stateFile] = string(state)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := s.writeText(ctx, u, p.session, path, files[path]); err != nil {
			return err
		}
	}
	var ch protocol.Channel
	err = s.call(ctx, u, protocol.OpChannelOpen, protocol.ChannelOpen{
		Session: p.session, Kind: "process", Argv: toolcalls.Argv(), Cwd: folder,
		Env: q.language.environment(), Stdin: true, Tag: toolcalls.Tag,
	}, &ch)
	p.channel = ch.ID
	return err
}

func (s *programs) writeText(ctx context.Context, u store.User, session, path, text string) error {
	_, err := s.write(ctx, u, protocol.FileWrite{
		FileRef: protocol.FileRef{Session: session, Path: path},
	}, strings.NewReader(text))
	return err
}

// errExpired is the error of a token without a program that waits for it.
func errExpired() error {
	return fault.New(fault.NotFound, "librechat.continue",
		"no program waits with this token: it has ended, or waited for too long")
}

// continueProgram finds a program that waits, and gives it results.
func (s *programs) continueProgram(ctx context.Context, u store.User, name string,
	q *programRequest, request string,
) (*waiting, error) {
	_, step, _ := strings.Cut(q.Token, ".")
	p := &waiting{name: name}
	var err error
	p.number, err = strconv.Atoi(step)
	if err != nil || p.number < 2 || p.number > toolcalls.MaxSteps+1 || !store.ValidID(name) {
		return nil, errExpired()
	}
	results, err := encodeResults(q.Results)
	if err != nil {
		return nil, err
	}
	v, err := conversation.Sessions{Node: s.cfg.Node}.Find(ctx, u.Who, programPlace(u, name))
	if fault.Is(err, fault.NotFound) {
		return nil, errExpired()
	}
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(v.Channels, func(c protocol.Channel) bool {
		return c.Tag == toolcalls.Tag
	})
	if v.State == "lost" || i < 0 {
		s.discard(u, v.ID)
		return nil, errExpired()
	}
	p.session, p.channel = v.ID, v.Channels[i].ID
	if request != "" {
		labels := programLabels(u, request)
		if err := s.call(ctx, u, protocol.OpSessionUpdate, protocol.SessionUpdate{
			Session: p.session, Labels: &labels,
		}, nil); err != nil {
			return p, err
		}
	}
	if err := s.readJSON(ctx, u, p.session, stateFile, maxState, p); err != nil {
		return p, err
	}
	return p, s.writeText(ctx, u, p.session, toolcalls.ResultsPath(p.number), results)
}

// readJSON reads a JSON file of a session, of at most limit bytes.
func (s *programs) readJSON(ctx context.Context, u store.User, session, path string, limit int64,
	v any,
) error {
	r, err := sessionfile.Read(ctx, s.cfg.Node, u.Who, protocol.FileRead{
		FileRef: protocol.FileRef{Session: session, Path: path},
	})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if err := json.NewDecoder(io.LimitReader(r, limit)).Decode(v); err != nil {
		return fault.Wrap(fault.Unavailable, "librechat.state", err) // the program has changed it
	}
	return nil
}

// follow makes a step and returns its event; nil if the supervisor ends without one.
func (s *programs) follow(ctx context.Context, u store.User, p *waiting) (*toolcalls.Event, error) {
	timeout := time.Duration(min(p.TimeoutMS, s.cfg.Timeout.Milliseconds())) * time.Millisecond
	if err := s.requestStep(ctx, u, p, timeout); err != nil {
		return nil, err
	}
	client, err := s.attach(ctx, u, protocol.Attach{
		Session: p.session, Channel: p.channel, ReadOnly: true,
	})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	defer context.AfterFunc(ctx, client.Close)()
	defer time.AfterFunc(timeout+endGrace, client.Close).Stop()
	var text strings.Builder
	for {
		batch, err := client.Next()
		if ctx.Err() != nil {
			return nil, surface.ErrGone()
		}
		if err != nil {
			return nil, nil // the sandbox has ended, or the program keeps its supervisor from work
		}
		ended := false
		for _, o := range batch {
			if text.Len() < maxState {
				text.Write(o.Stdout)
			}
			ended = ended || o.Exit != nil
		}
		if slices.Contains(strings.Split(text.String(), "\n"), strconv.Itoa(p.number)) {
			e := new(toolcalls.Event)
			return e, s.readJSON(ctx, u, p.session, toolcalls.EventPath(p.number),
				toolcalls.MaxEvent, e)
		}
		if ended {
			return nil, nil
		}
		_ = client.Ack() // Next has the reason
	}
}

// requestStep asks the supervisor to make a step. Another gateway may have done so: the node drops
// what it has already.
func (s *programs) requestStep(ctx context.Context, u store.User, p *waiting, timeout time.Duration,
) error {
	client, err := s.attach(ctx, u, protocol.Attach{
		Session: p.session, Channel: p.channel, Offset: -1,
		Writer: "step-" + strconv.Itoa(p.number),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	defer context.AfterFunc(ctx, client.Close)()
	err = client.Write(fmt.Appendf(nil, "%d %d\n", p.number, timeout.Milliseconds()), false)
	if fault.Is(err, fault.Conflict) {
		return nil // it has ended, perhaps after this step
	}
	return err
}

func (s *programs) attach(ctx context.Context, u store.User, a protocol.Attach,
) (*processclient.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	link, err := s.cfg.Node.Open(ctx, u.Who)
	if err != nil {
		return nil, err
	}
	return processclient.Attach(ctx, link, a)
}
