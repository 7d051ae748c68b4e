// Package replica decides which PostgreSQL replica may take a read: it samples
// positions in the background, turns them into bounds on staleness, guards each
// replica with a [breaker.Breaker], and picks a node from memory alone.
//
// No single query on a replica tells its lag. A [Set] remembers when the primary
// was seen at which WAL position, on its own monotonic clock, and looks up a
// replica's replay position in that memory. The answer is an interval: Lo is
// evidence of lag (a breaker trips on it; WAL that the primary has not flushed is none), Hi is a safe upper bound (a read is
// sent on it). Hi grows with the age of the samples, so a sampler that died takes
// its replica out by itself (REQ-R5). What is not known is a [Condition], never a
// number (REQ-R8).
//
// A read may accept a late replica, up to an age that it names: where no other may take it, one
// whose only fault is lag then does, and the [Choice] says so. No other read ever gets one.
//
// A read may ask to see a write that went before it: a [Position], taken on the primary
// after the commit, travels in the context, or as signed text through a client, and such a read
// goes to a replica that has replayed up to it. [Set.Await] waits for one, on
// samples that all who wait share.
//
// The package speaks no SQL and imports no driver: a driver plugs in as a
// [Connector]. Package replica/postgres holds the SQL and its meaning.
//
// # Concurrency
//
// All methods of [Set] may be called at any time from any goroutine; [Position] is a value,
// and a [PositionSigner] is safe for concurrent use. [Set.Pick],
// [Choice.Done] and [Choice.Eligible] do no I/O; they take no lock and allocate
// nothing, but for a read that is refused, a read that failed (its breaker judges
// it under a lock), and with Settings.CountRequests a replica that is late.
// NewSet starts one goroutine per node, its sampler, and [Set.Close] waits for all
// of them. Each sampler has its own connection; a connection is used by its
// sampler only. Observer functions are called in order for each node, on the
// goroutine that made the event: a sampler, a timer, the caller whose failed read
// opened a breaker, or the caller of Reconfigure. They must be quick, may call Pick,
// Stats and Admits, and must not call Close, Add, Remove, Reconfigure, Ready, Refresh, Await or Position.
// After Close none is called; one that is under way then may still end.
package replica
