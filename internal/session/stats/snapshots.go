package stats

// addSnapshots registers the counters of snapshots in the blob store.
func (s *Stats) addSnapshots() {
	s.SnapshotsStored = s.counter("snapshots_stored",
		"Snapshots of this node that were stored in the blob store.")
	s.SnapshotsFetched = s.counter("snapshots_fetched",
		"Snapshots of other nodes that were fetched from the blob store.")
	s.snapshotsFailed = s.counter("snapshots_failed",
		"Uploads and fetches of snapshots that failed. The node tries uploads again later.")
}

// Uploaded counts an upload of a snapshot that has ended.
func (s *Stats) Uploaded(err error) { s.moved(s.SnapshotsStored, err) }

// Fetched counts a fetch of a snapshot that has ended.
func (s *Stats) Fetched(err error) { s.moved(s.SnapshotsFetched, err) }

func (s *Stats) moved(done *Counter, err error) {
	if err != nil {
		done = s.snapshotsFailed
	}
	done.Add(1)
}
