// Package replica decides which PostgreSQL replica may take a read: it samples
// positions in the background, turns them into bounds on staleness, guards each
// replica with a [breaker.Breaker], and picks a node from memory alone.
//
// No single query on a replica tells its lag. A [Set] remembers when the primary
// was seen at which WAL position, on its own monotonic clock, and looks up a
// replica's replay position in that memory. The answer is an interval: Lo is
// evidence of lag (a breaker trips on it), Hi is a safe upper bound (a read is
// sent on it). Hi grows with the age of the samples, so a sampler that died takes
// its replica out by itself (REQ-R5). What is not known is a [Condition], never a
// number (REQ-R8).
//
// The package speaks no SQL and imports no driver: a driver plugs in as a
// [Connector]. Package replica/postgres holds the SQL and its meaning.
//
// # Concurrency
//
// All methods of [Set] may be called at any time from any goroutine. [Set.Pick],
// [Choice.Done] and [Choice.Eligible] take no lock, do no I/O, and allocate
// nothing unless the read is refused. NewSet starts one goroutine per node, its
// sampler, and [Set.Close] waits for all of them. Each sampler has its own
// connection; a connection is used by its sampler only. Observer functions are
// called with no lock held, in order for each node, on the goroutine that made
// the event: a sampler, or the caller whose failed read opened a breaker. They
// must be quick and must not call Close, Add or Remove.
package replica
