package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
)

// operation is how one op is carried out.
type operation struct {
	run func(ctx context.Context, c *linkHandler, r protocol.Request) (any, error)
	// ordered: the request names an attached channel, and is carried out
	// after those before it on that channel.
	ordered bool
	// inline: it takes no time, and later frames depend on it.
	inline bool
	// writes: it does something to the channel that it names, and so is
	// nothing for a viewer that is read-only.
	writes bool
	// limit is the longest it may take; 0 means opLimit.
	limit time.Duration
}

// Limits of operations. Files take as long as the link goes on.
const (
	opLimit     = time.Minute
	createLimit = 5 * time.Minute
	fileLimit   = 24 * time.Hour
)

// nothing is the result {}.
type nothing struct{}

// operations returns the table of all there are.
func operations() map[string]operation {
	all := map[string]operation{
		protocol.OpHello:            {run: opHello, inline: true},
		protocol.OpSessionCreate:    {run: opSessionCreate, limit: createLimit},
		protocol.OpSessionGet:       {run: opSessionGet},
		protocol.OpSessionWatch:     {run: opSessionWatch, inline: true},
		protocol.OpSessionList:      {run: opSessionList},
		protocol.OpSessionDelete:    {run: opSessionDelete},
		protocol.OpSessionUpdate:    {run: opSessionUpdate},
		protocol.OpSessionPause:     {run: opSessionPause},
		protocol.OpSessionKeepalive: {run: opSessionKeepalive},
		protocol.OpHibernate:        {run: opHibernate, limit: createLimit},
		protocol.OpResume:           {run: opResume, limit: createLimit},
		protocol.OpChannelOpen:      {run: opChannelOpen},
		protocol.OpChannelList:      {run: opChannelList},
		protocol.OpChannelClose:     {run: opChannelClose},
		protocol.OpAttach:           {run: opAttach, inline: true},
		protocol.OpDetach:           {run: opDetach, inline: true},
		protocol.OpFollow:           {run: opFollow, inline: true},
		protocol.OpExecute:          {run: opExecute, ordered: true, writes: true},
		protocol.OpInput:            {run: opInput, ordered: true, writes: true},
		protocol.OpSignal:           {run: opSignal, ordered: true, writes: true},
		protocol.OpResize:           {run: opResize, ordered: true, writes: true},
		protocol.OpInterrupt:        {run: opInterrupt, ordered: true, writes: true},
		protocol.OpRestart:          {run: opRestart, limit: createLimit, writes: true},
		protocol.OpComplete:         {run: opAsk, writes: true},
		protocol.OpInspect:          {run: opAsk, writes: true},
		protocol.OpIsComplete:       {run: opAsk, writes: true},
		protocol.OpVariables:        {run: opVariables, writes: true},
		protocol.OpHistory:          {run: opHistory},
		protocol.OpComm:             {run: opComm, ordered: true, writes: true},
		protocol.OpFileWrite:        {run: opFileWrite, inline: true},
		protocol.OpFileRead:         {run: opFileRead, limit: fileLimit},
		protocol.OpFileStat:         {run: opFileStat},
		protocol.OpTemplateBuild:    {run: opTemplateBuild, inline: true},
		protocol.OpTemplateList:     {run: opTemplateList},
		protocol.OpTemplateGet:      {run: opTemplateGet},
		protocol.OpTemplateDelete:   {run: opTemplateDelete, limit: createLimit},
		protocol.OpStatus:           {run: opStatus},
		protocol.OpMetrics:          {run: opMetrics},
		protocol.OpAudit:            {run: opAudit},
		protocol.OpTreeWrite:        {run: opTreeWrite, inline: true},
		protocol.OpTreeRead:         {run: opTreeRead, limit: fileLimit},
		protocol.OpFileList:         {run: opFileList},
		protocol.OpFileMkdir:        {run: opFileMkdir},
		protocol.OpFileMove:         {run: opFileMove, limit: createLimit},
		protocol.OpFileCopy:         {run: opFileCopy, limit: createLimit},
		protocol.OpFileRemove:       {run: opFileRemove, limit: createLimit},
		protocol.OpFileWatch:        {run: opFileWatch},
		protocol.OpFork:             {run: opFork, limit: createLimit},
		protocol.OpSnapshot:         {run: opSnapshot, limit: createLimit},
		protocol.OpSnapshotList:     {run: opSnapshotList},
		protocol.OpSnapshotGet:      {run: opSnapshotGet},
		protocol.OpSnapshotDel:      {run: opSnapshotDelete},
		protocol.OpVolumeCreate:     {run: opVolumeCreate},
		protocol.OpVolumeList:       {run: opVolumeList},
		protocol.OpVolumeGet:        {run: opVolumeGet},
		protocol.OpVolumeDelete:     {run: opVolumeDelete, limit: createLimit},
		protocol.OpVolumeLease:      {run: opVolumeLease},
		protocol.OpVolumeRelease:    {run: opVolumeRelease},
		protocol.OpPortOpen:         {run: opPortOpen, inline: true},
		protocol.OpPortList:         {run: opPortList},
		protocol.OpProcessList:      {run: opProcessList},
		protocol.OpAdopt:            {run: opAdopt, limit: moveLimit},
		protocol.OpParked:           {run: opParked},
		protocol.OpDrain:            {run: opDrain, limit: moveLimit},
		protocol.OpProcessSignal:    {run: opProcessSignal},
		protocol.OpKeyCreate:        {run: opKeyCreate},
		protocol.OpKeyList:          {run: opKeyList},
		protocol.OpKeyRotate:        {run: opKeyRotate},
		protocol.OpKeyRevoke:        {run: opKeyRevoke},
		protocol.OpTenantList:       {run: opTenantList},
		protocol.OpTenantQuota:      {run: opTenantQuota},
		protocol.OpKeyWatch:         {run: opKeyWatch, inline: true},
		protocol.OpLinkCreate:       {run: opLinkCreate},
		protocol.OpLinkList:         {run: opLinkList},
		protocol.OpLinkEnd:          {run: opLinkEnd},
	}
	for name, o := range all {
		if o.limit == 0 {
			o.limit = opLimit
			all[name] = o
		}
	}
	return all
}

// params decodes a request's parameters. Missing ones are the zero value.
func params[T any](r protocol.Request) (T, error) {
	var p T
	if len(r.Params) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		e := &fault.Error{Kind: fault.InvalidArgument, Op: r.Op, Field: "params", Message: "the parameters are not those of " + r.Op, Err: err}
		if t, ok := err.(*json.UnmarshalTypeError); ok && t.Field != "" {
			e.Field, e.Message = t.Field, "it cannot be a "+t.Value
		}
		return p, e
	}
	return p, nil
}

func opHello(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	if _, err := params[protocol.Hello](r); err != nil {
		return nil, err
	}
	return protocol.Welcome{Protocol: protocol.Subprotocol, Server: "sandgate " + c.m.cfg.Version}, nil
}

func opSessionCreate(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.SessionCreate](r)
	if err != nil {
		return nil, err
	}
	var s *Session
	if p.Snapshot != "" {
		s, err = c.m.snapshots.start(ctx, c.principal, p)
	} else {
		s, err = c.m.createNew(ctx, c.principal, p)
	}
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // nobody will hear of it
		c.m.Remove(s)
		return nil, fault.Wrap(fault.KindOf(err), r.Op, err)
	}
	return s.View(), nil
}

// ref finds the session that a request refers to.
func (c *linkHandler) ref(r protocol.Request) (*Session, error) {
	p, err := params[protocol.SessionRef](r)
	if err != nil {
		return nil, err
	}
	return c.m.Find(c.principal, p.Session)
}

func opSessionGet(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	s, err := c.ref(r)
	if err != nil {
		return nil, err
	}
	v := s.View()
	v.Usage = s.Usage(ctx)
	return v, nil
}

func opSessionList(_ context.Context, c *linkHandler, _ protocol.Request) (any, error) {
	return protocol.SessionList{Sessions: c.m.List(c.principal)}, nil
}

func opSessionDelete(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	s, err := c.ref(r)
	if err != nil {
		return nil, err
	}
	c.m.count.sessionsDeleted.Add(1)
	c.m.Remove(s)
	return nothing{}, nil
}

func opHibernate(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	s, err := c.ref(r)
	if err != nil {
		return nil, err
	}
	if err := s.Hibernate(ctx); err != nil {
		return nil, err
	}
	return s.View(), nil
}

func opResume(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	s, err := c.ref(r)
	if err != nil {
		return nil, err
	}
	end, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	end()
	return s.View(), nil
}

func opChannelOpen(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.ChannelOpen](r)
	if err != nil {
		return nil, err
	}
	s, err := c.m.Find(c.principal, p.Session)
	if err != nil {
		return nil, err
	}
	if p.Key != "" {
		// It goes on when the connection is lost, and the repeat finds it.
		// Undone and begun anew each time, it would never end while
		// connections come and go.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), opLimit)
		defer cancel()
	}
	ch, err := s.OpenChannel(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil && p.Key == "" {
		// It was opened just when the only one who wanted it had gone.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), opLimit)
		defer cancel()
		return nil, errors.Join(fault.Wrap(fault.KindOf(err), "channel.open", err), s.CloseChannel(undo, ch))
	}
	return ch.View(), nil
}

func opChannelList(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	s, err := c.ref(r)
	if err != nil {
		return nil, err
	}
	return protocol.ChannelList{Channels: views(s.Channels())}, nil
}

func opChannelClose(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.ChannelRef](r)
	if err != nil {
		return nil, err
	}
	s, err := c.m.Find(c.principal, p.Session)
	if err != nil {
		return nil, err
	}
	ch, err := s.Channel(p.Channel)
	if err != nil {
		return nil, err
	}
	return nothing{}, s.CloseChannel(ctx, ch)
}

// opAttach answers before the first record is sent.
func opAttach(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.Attach](r)
	if err != nil {
		return nil, err
	}
	result, a, err := c.attach(r, p)
	if err != nil {
		return nil, err
	}
	c.reply(r.ID, result, nil)
	a.start()
	return answered{}, nil
}

func opDetach(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	return nothing{}, c.detach(r.Ch)
}

func opFollow(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	a, err := c.at(r)
	if err != nil {
		return nil, err
	}
	p, err := params[protocol.Follow](r)
	if err != nil {
		return nil, err
	}
	return nothing{}, a.follow(p)
}

// at finds what a request's ch is attached to.
func (c *linkHandler) at(r protocol.Request) (*Viewer, error) {
	if a := c.find(r.Ch); a != nil {
		return a, nil
	}
	return nil, fault.Invalid(r.Op, "ch", "nothing is attached as %d", r.Ch)
}

// kernelAt is at for kernels, awake until end is called.
func (c *linkHandler) kernelAt(ctx context.Context, r protocol.Request) (q *queue.Queue, end func(), err error) {
	a, err := c.at(r)
	if err != nil {
		return nil, nil, err
	}
	if a.channel.kind != "kernel" {
		return nil, nil, fault.Invalid(r.Op, "ch", "%d is no kernel", r.Ch)
	}
	end, err = a.session.Acquire(ctx)
	return a.channel.queue, end, err
}

func opExecute(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.Execute](r)
	if err == nil {
		err = checkExecute(p)
	}
	if err != nil {
		return nil, err
	}
	q, end, err := c.kernelAt(ctx, r)
	if err != nil {
		return nil, err
	}
	defer end()
	a, err := c.at(r)
	if err != nil {
		return nil, err
	}
	_, span := trace.Start(ctx, "cell")
	span.Set(trace.Session, a.session.id)
	span.Set(trace.Channel, a.channel.id)
	span.Set(trace.Language, a.channel.language)
	queued, err := a.channel.traces.submit(span, func() (protocol.Queued, error) { return q.Submit(p) })
	if err == nil && !queued.Repeated {
		a.session.acknowledged(a.channel.id, queued.Cell, p.Key)
		c.m.count.executes.Add(1)
	}
	return queued, err
}

func opInput(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.InputReply](r)
	if err != nil {
		return nil, err
	}
	if len(p.Value) > protocol.MaxInput {
		return nil, fault.Invalid(r.Op, "value", "an input has at most %d bytes", protocol.MaxInput)
	}
	q, end, err := c.kernelAt(ctx, r)
	if err != nil {
		return nil, err
	}
	defer end()
	c.m.count.inputBytes.Add(int64(len(p.Value)))
	c.find(r.Ch).took(len(p.Value))
	return nothing{}, q.Input(p.Cell, p.Value, p.EOF)
}

func opInterrupt(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.Interrupt](r)
	if err != nil {
		return nil, err
	}
	if p.GraceMS < 0 || p.GraceMS > maxMillis {
		return nil, fault.Invalid(r.Op, "grace_ms", "a grace has between 0 and %d milliseconds", maxMillis)
	}
	a, err := c.at(r)
	if err != nil {
		return nil, err
	}
	end, err := a.session.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if a.channel.queue != nil {
		return nothing{}, a.channel.queue.Interrupt(ctx, time.Duration(p.GraceMS)*time.Millisecond)
	}
	return nothing{}, a.signal(ctx, "SIGINT")
}

func opSignal(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.Signal](r)
	if err != nil {
		return nil, err
	}
	if err := checkSignal(p.Signal); err != nil {
		return nil, err
	}
	a, err := c.at(r)
	if err != nil {
		return nil, err
	}
	if a.channel.kind == "kernel" {
		return nil, fault.Invalid(r.Op, "ch", "%d is a kernel: interrupt or restart it", r.Ch)
	}
	end, err := a.session.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return nothing{}, a.signal(ctx, p.Signal)
}

func opResize(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.Resize](r)
	if err != nil {
		return nil, err
	}
	size := pty.Size{Cols: p.Cols, Rows: p.Rows}
	if err := size.Check(r.Op); err != nil {
		return nil, err
	}
	a, err := c.at(r)
	if err != nil {
		return nil, err
	}
	if a.channel.terminal == nil {
		return nil, fault.Invalid(r.Op, "ch", "%d is no terminal", r.Ch)
	}
	a.channel.terminal.active(a, size)
	return nothing{}, a.channel.fit(ctx)
}

// signal sends a signal to a process. One that has ended needs none.
func (a *Viewer) signal(ctx context.Context, name string) error {
	err := a.session.agent.Signal(ctx, a.channel.wire, name)
	if err != nil && a.channel.ended() {
		return fault.New(fault.Conflict, "session.signal", "the process has ended")
	}
	return err
}

func opRestart(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	q, end, err := c.kernelAt(ctx, r)
	if err != nil {
		return nil, err
	}
	defer end()
	return nothing{}, q.Restart(ctx)
}

// opAsk passes complete, inspect and is_complete on.
func opAsk(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.Complete](r)
	if err == nil {
		err = checkComplete(p)
	}
	if err != nil {
		return nil, err
	}
	q, end, err := c.kernelAt(ctx, r)
	if err != nil {
		return nil, err
	}
	defer end()
	return q.Ask(ctx, kernel.Request{Op: r.Op, Code: p.Code, Cursor: p.Cursor, Detail: p.Detail})
}

func opVariables(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	q, end, err := c.kernelAt(ctx, r)
	if err != nil {
		return nil, err
	}
	defer end()
	return q.Ask(ctx, kernel.Request{Op: r.Op})
}

// opHistory needs no kernel, and so wakes none.
func opHistory(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	a, err := c.at(r)
	if err != nil {
		return nil, err
	}
	if a.channel.queue == nil {
		return nil, fault.Invalid(r.Op, "ch", "%d is no kernel", r.Ch)
	}
	return protocol.History{Entries: a.channel.queue.History()}, nil
}

func opStatus(_ context.Context, c *linkHandler, _ protocol.Request) (any, error) {
	return c.m.Status(), nil
}
