// Package pgxread reads from PostgreSQL replicas over pgx pools, and never from one
// that is late, frozen or dead, unless the read itself accepts a late one.
//
// [Open] makes one pool for the primary and one for each replica, and a
// [replica.Set] that watches them in the background. What a call is, its caller
// says: the methods of [DB] go to the primary; those of a [Reader], and Query,
// QueryRow, Exec and SendBatch under a context from [WithRead], are reads. Nothing is
// ever guessed from SQL text. Both DB and Reader fit the interfaces that sqlc
// generates for pgx/v5.
//
// A read asks the Set first, which answers from memory, and only then takes a
// connection:
//
//	Pick ── Acquire ── Eligible? ── statement, first row ── rows … Close
//	  │        │           │ no          │ failed safely       └── Done, once
//	  │        └───────────┴── anew      └── once more, on another node
//	  └── nobody: replica.ErrNoReplica with each node's reason, at once
//
// A read that failed before a row was delivered is tried once on another replica,
// within its caller's deadline, when the failure says that the node is not serving
// (REQ-R6). Never after that, never in a transaction once BEGIN has succeeded, never
// a write. A replica whose breaker is open is not dialled for a request that wants a fresh one (REQ-R7).
//
// A replica is one server: its DSN names one host, and a new connection for reads is
// used only if it leads to the server that the sampler sees, for which it is asked once.
// Behind an address that several servers share, most reads are refused.
//
// # Reading one's own writes
//
// [CommitPosition] returns a position in the round trip of the commit, [DB.Position] one after any
// commit for a round trip, and [replica.Set.Position] for none, from the sampler's next look. A read under
// [replica.WithPosition], or with it in its Requirement, goes to a replica that has
// replayed up to it. If none has, it waits for [Config.PositionWait]; then it is refused, by an
// error that matches replica.ErrBehind, and its caller may read again with PrimaryOnly.
//
// # Late replicas
//
// A read with AcceptLate in its Requirement may use, where no other replica may take it, one whose
// only fault is lag, up to that age; ReadInfo.Late says that it did. For such a read a replica that is open because of lag is
// dialled, and for no other. What these reads meet closes no breaker and opens none: a failure has the replica sampled at once.
//
// # Timeouts
//
// Every call through a DB, its transactions' statements included, ends after
// [Config.CallTimeout], rows included; see [WithCallTimeout]. A connection attempt
// ends after [Config.ConnectTimeout].
//
// # What counts against a replica
//
// Failed and refused connections, timeouts that this package set, and SQLSTATE
// 57P01, 57P02, 57P03 and 08xxx count. Other SQL errors, a caller's cancellation, an
// exhausted pool and a write sent to a read do not. A caller's own deadline counts
// only for a call that lasted at least [Config.SlowCall] (REQ-B9).
//
// # Concurrency
//
// All methods of [DB] and [Reader] may be called at any time from any goroutine, but for
// what [Config.Observer] rules out for its functions. What
// they return (rows, batch results, transactions) is for one goroutine, as with pgx,
// and must be closed, as with pgx: it holds a connection until then. Open starts the
// Set's samplers and pgxpool's own goroutines, and no others; [DB.Close] waits for
// all of them, and for the connections that are still in use.
package pgxread
