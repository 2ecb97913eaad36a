package quorum

// Compact makes raft forget all batches but the trailing ones, as it does by itself once
// there are many.
func (m *Member) Compact() error { return m.running().Snapshot().Error() }

// Index is where raft's snapshot stands, zero where there is none.
func (m *Member) Index() uint64 { return m.snaps.index() }
