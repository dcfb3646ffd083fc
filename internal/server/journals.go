package server

import (
	"context"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/report"
	"github.com/sandgate/sandgate/internal/report/archive"
)

// openJournals opens the usage journal and the audit log. In a cluster with a blob store they are
// uploaded until the node has ended.
func (n *node) openJournals() error {
	if n.cfg.Cluster.Redis != "" && n.membership.blobs != nil {
		if err := n.openArchive(); err != nil {
			return err
		}
	}
	var err error
	n.usage, err = n.openJournal(journal.Options{
		Dir: n.cfg.UsageDir(), Name: "usage", MaxFile: int64(n.cfg.Usage.MaxFile),
		Keep: n.cfg.Usage.Keep,
	})
	if err != nil {
		return err
	}
	n.cleanup.add(n.usage.Close)
	a := n.cfg.Audit
	n.audit = audit.Log{
		Whole: a.Code == "whole", Required: a.Required, Refusals: new(audit.Refusals),
	}
	if a.Enabled {
		n.audit.Journal, err = n.openJournal(journal.Options{
			Dir: n.cfg.AuditDir(), Name: "audit", MaxFile: int64(a.MaxFile), Keep: a.Keep,
		})
		if err != nil {
			return err
		}
		n.cleanup.add(func(ctx context.Context) error {
			n.audit.Flush()
			return n.audit.Journal.Close(ctx)
		})
	}
	n.runArchive()
	return nil
}

// openJournal opens a journal, and adds it to the archive.
func (n *node) openJournal(o journal.Options) (*journal.Journal, error) {
	o.Log = n.log
	if n.archive != nil {
		if err := n.archive.Prepare(o.Dir, o.Name); err != nil {
			return nil, err
		}
	}
	j, err := journal.Open(o)
	if err == nil && n.archive != nil {
		n.archive.AddJournal(j)
	}
	return j, err
}

func (n *node) openArchive() error {
	id, err := instance(n.cfg)
	if err != nil {
		return err
	}
	n.archive = archive.New(archive.Options{
		Blobs: n.membership.blobs, Folder: archive.FolderOf(string(n.membership.name), id),
		Keep: time.Duration(n.cfg.Cluster.Records), Log: n.log,
	})
	// The journals are closed before.
	n.cleanup.add(func(ctx context.Context) error {
		n.archive.Close(ctx)
		return nil
	})
	return nil
}

// runArchive uploads the journals until the node closes.
func (n *node) runArchive() {
	if n.archive == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { n.archive.Run(ctx) })
	n.cleanup.do(func() { cancel(); work.Wait() })
}

// reports returns what answers questions about the journals.
func (n *node) reports() *report.Reader {
	if n.archive == nil {
		return report.New(n.cfg.UsageDir(), n.cfg.AuditDir(), nil)
	}
	return report.New(n.cfg.UsageDir(), n.cfg.AuditDir(), n.archive)
}
