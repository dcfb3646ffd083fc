package stats

// addSnapshots registers the counters of snapshots in the blob store.
func (s *Stats) addSnapshots() {
	s.SnapshotsStored = s.counter("snapshots_stored",
		"Snapshots of this node that were stored in the blob store.")
	s.SnapshotsFetched = s.counter("snapshots_fetched",
		"Snapshots of other nodes that were fetched from the blob store.")
	s.snapshotsFailed = s.counter("snapshots_failed",
		"Uploads and fetches of snapshots that failed. The node tries uploads again later.")
	s.templatesStored = s.counter("templates_stored",
		"Templates of this node, or builds of them, that were stored in the blob store.")
	s.templatesFetched = s.counter("templates_fetched",
		"Templates of other nodes that were fetched from the blob store.")
	s.templatesFailed = s.counter("templates_failed",
		"Uploads and fetches of templates that failed. The node tries uploads again later.")
}

// TemplateUploaded counts an upload of a template that has ended.
func (s *Stats) TemplateUploaded(err error) { count(s.templatesStored, s.templatesFailed, err) }

// TemplateFetched counts a fetch of a template that has ended.
func (s *Stats) TemplateFetched(err error) { count(s.templatesFetched, s.templatesFailed, err) }

// Uploaded counts an upload of a snapshot that has ended.
func (s *Stats) Uploaded(err error) { count(s.SnapshotsStored, s.snapshotsFailed, err) }

// Fetched counts a fetch of a snapshot that has ended.
func (s *Stats) Fetched(err error) { count(s.SnapshotsFetched, s.snapshotsFailed, err) }

func count(done, failed *Counter, err error) {
	if err != nil {
		done = failed
	}
	done.Add(1)
}
