package stats

// addMoves registers the counters of sessions that move between nodes, or to another sandbox.
func (s *Stats) addMoves() {
	s.Parked = s.counter("parked", "Sessions that were moved to the blob store.")
	s.Adopted = s.counter("adopted", "Sessions that were taken from the blob store.")
	s.Fenced = s.counter("fenced",
		"Requests that were refused because the node could not confirm that it still owns the session.")
	s.TakenOver = s.counter("taken_over",
		"Sessions of failed nodes that this node took over, from their last copy in the blob store.")
	s.StoreSwept = s.counter("store_swept",
		"Objects and unfinished uploads without an owner that were removed from the blob store.")
	s.Carried = s.counter("carried",
		"Sessions and snapshots whose files were moved to a sandbox of the current runtime and image "+
			"at the end of the window of their own.")
	s.CarryFailed = s.counter("carry_failed",
		"Attempts to do so that failed. They stay as they are, with their runtime and image.")
	s.EditionsLeft = s.counter("editions_left",
		"Runtimes and images that sessions in the blob store need, and that this node could not put "+
			"there while it was drained or stopped.")
	s.editionsStored = s.counter("editions_stored",
		"Runtimes and images that this node has put into the blob store.")
	s.editionsFetched = s.counter("editions_fetched",
		"Runtimes and images that this node has fetched from the blob store.")
	s.editionsFailed = s.counter("editions_failed", "Attempts to put one there, or to fetch one, that failed.")
}

// EditionStored counts an edition that was put into the blob store, or that was not.
func (s *Stats) EditionStored(err error) { count(s.editionsStored, s.editionsFailed, err) }

// EditionFetched counts an edition that was fetched from the blob store, or that was not.
func (s *Stats) EditionFetched(err error) { count(s.editionsFetched, s.editionsFailed, err) }
