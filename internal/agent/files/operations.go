package files

import (
	"io"
	"strings"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Transfer is the host's end of one operation.
type Transfer interface {
	// Read returns data from the host, for a write. After an abort it fails.
	io.Reader
	// Respond answers the request.
	Respond(result any, err error)
	// Put sends n bytes of buf, which begin after stream.HeaderSize bytes of room, once the host
	// has room for them. After an abort it fails.
	Put(buf []byte, n int) error
	// Finish sends the end of the data, or the error.
	Finish(err error)
	// OnAbort sets a function that an abort calls. If the transfer is aborted already, it calls the
	// function at once.
	OnAbort(cut func())
}

// Params has the parameters of all operations on files.
type Params struct {
	wire.FileWrite
	Offset    int64  `json:"offset"`
	Length    int64  `json:"length"`
	IfRange   string `json:"if_range"`
	Limit     int    `json:"limit"`
	After     string `json:"after"`
	To        string `json:"to"`
	Overwrite bool   `json:"overwrite"`
	Recursive bool   `json:"recursive"`
	Archive   string `json:"archive"`
	Target    string `json:"target"`
	Since     string `json:"since"`
	Depth     int    `json:"depth"`
	NoFollow  bool   `json:"no_follow"`
	Each      bool   `json:"each"`
	Force     bool   `json:"force"`
	Whole     bool   `json:"whole"`
}

// Operation is an operation on files whose paths are checked.
type Operation struct {
	op       string
	params   Params
	path, to string
}

// NewOperation checks the paths of an operation. op is one of wire.OpFile… or wire.OpTree….
func (s *Service) NewOperation(op string, q Params) (Operation, error) {
	o := Operation{op: op, params: q}
	var bad *fault.Error
	if op == wire.OpFileChanges && q.Path == "" {
		o.path = s.cfg.Home
		return o, nil
	}
	if o.path, bad = AbsPath(s.cfg.Home, "agent."+op, q.Path); bad == nil &&
		(op == wire.OpFileMove || op == wire.OpFileCopy) {
		if o.to, bad = AbsPath(s.cfg.Home, "agent."+op, q.To); bad != nil {
			bad.Field = "to"
		}
	}
	if bad != nil {
		return o, bad
	}
	return o, nil
}

// Run carries out an operation in another goroutine, answers it and calls done.
func (s *Service) Run(o Operation, t Transfer, done func()) {
	if o.op == wire.OpFileLink && !strings.HasPrefix(o.path, s.cfg.Home+"/") {
		// The creator of the session asks for this link, before any user code runs.
		go func() {
			defer done()
			t.Respond(struct{}{}, makeLink(o.path, o.params.Target, false))
		}()
		return
	}
	if o.op == wire.OpFileChanges {
		j, err := s.journals.find(o.path)
		var page wire.ChangedFiles
		quick := err != nil
		if err == nil {
			page, quick = j.answerQuickly(o.params)
		}
		if quick {
			t.Respond(page, err)
			done()
			return
		}
	}
	s.threads.run(func(err error) {
		defer done()
		if err != nil {
			t.Respond(nil, err)
			return
		}
		s.perform(o, t)
	})
}

// WriteSource writes a program that is about to be started, and waits for it. It is no change that
// the records report. Errors: Conflict if there is a file, and those of a write.
func (s *Service) WriteSource(path, content string) error {
	at, bad := AbsPath(s.cfg.Home, "agent.source", path)
	if bad != nil {
		return bad
	}
	written := make(chan error)
	s.threads.run(func(err error) {
		if err == nil {
			_, err = s.writeFile(at, wire.FileWrite{IfAbsent: true}, strings.NewReader(content))
		}
		if err == nil {
			s.journals.leaveOut(at)
		}
		written <- err
	})
	return <-written
}

// perform carries out an operation on files. The calling thread must have the user's rights.
func (s *Service) perform(o Operation, t Transfer) {
	q, path, to := o.params, o.path, o.to
	var result any = struct{}{}
	var err error
	switch o.op {
	case wire.OpFileStat:
		result, err = describeFile(path, q.NoFollow)
	case wire.OpFileList:
		result, err = listFolder(path,
			wire.FileList{Depth: q.Depth, Limit: q.Limit, After: q.After})
	case wire.OpFileMkdir:
		result, err = makeFolder(path)
	case wire.OpFileMove:
		result, err = s.moveFile(path, wire.FileMove{Overwrite: q.Overwrite}, to)
	case wire.OpFileCopy:
		result, err = s.copyFile(path, wire.FileMove{Overwrite: q.Overwrite}, to)
	case wire.OpFileRemove:
		err = s.removeFile(path, wire.FileRemove{Recursive: q.Recursive})
	case wire.OpFileLink:
		err = makeLink(path, q.Target, true)
	case wire.OpFileChanges:
		var j *journal
		if j, err = s.journals.find(path); err == nil {
			result, err = j.changes(q)
		}
	case wire.OpFileWatch:
		s.watchFile(t, path, q.Recursive, q.Each)
		return
	case wire.OpFileWrite:
		result, err = s.writeFile(path, q.FileWrite, t)
	case wire.OpTreeWrite:
		result, err = unpack(path, t, q.Whole)
	case wire.OpTreeRead:
		var stat wire.FileStat
		stat, err = openTree(path, wire.TreeRead{Archive: q.Archive})
		t.Respond(s.owned(stat), err)
		if err == nil {
			out := &dataWriter{t: t}
			if err = pack(path, q.Archive, q.Force, out); err == nil {
				err = out.flush()
			}
			t.Finish(fileError("agent."+o.op, err))
		}
		return
	case wire.OpFileRead:
		s.readFile(t, path, q)
		return
	}
	switch known := result.(type) {
	case wire.FileStat:
		result = s.owned(known)
	case wire.FileListing:
		for i, e := range known.Entries {
			known.Entries[i] = s.owned(e)
		}
	}
	t.Respond(result, err)
}
