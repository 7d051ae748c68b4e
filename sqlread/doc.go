// Package sqlread is the read path for database/sql: reads from PostgreSQL replicas, and
// never from one that is late, frozen or dead, unless the read itself accepts a late one
// (AcceptLate in its Requirement; ReadInfo.Late says that it did). It imports no driver.
//
// [Open] makes one pool for the primary and one for each replica, from the driver's own
// [driver.Connector], and a [replica.Set] that watches them in the background. The [DB] is
// a real [sql.DB] whose connections are routed: sqlx, gorm, ent and what sqlc generates take
// it unchanged. What a call is, its caller says: the DB's calls go to the primary, those of
// the [sql.DB] that [DB.Reader] makes, and those under a context from [WithRead], are
// reads. Nothing is ever guessed from SQL text.
//
// A routed connection takes a connection of a node at its first statement, and gives it
// back when database/sql takes the routed one back: at the end of a statement, of its rows,
// of a transaction, or at [sql.Conn.Close]. So a transaction and a [sql.Conn] are one session
// on one server. A prepared statement is only text until it is used; each connection of a node
// prepares it once.
//
// A read asks the Set first, which answers from memory. One that failed before a row was
// delivered is tried once on another replica, within its caller's deadline, when the
// failure says that the node is not serving (REQ-R6). Never after that, never in a
// transaction once BEGIN has succeeded or on a [sql.Conn] that has its session, never a write.
// A replica whose breaker is open is not dialled for a request that wants a fresh one, and its idle connections
// are closed (REQ-R7). Where the driver says by [driver.ErrBadConn] that a statement was not
// sent, another connection of the same node is taken, as database/sql does, for writes too.
//
// What reads do while no replica is fresh enough is package readpath's, over [DB.Backend]. Reads of the primary run in a pool of
// their own, whose sessions cannot write ([Config.PrimaryReads]).
//
// To read one's own write from a replica, take a position after the commit ([DB.Position], or at no connection's cost [replica.Set.Position])
// and read under [replica.WithPosition]: the read goes to a replica that has replayed it, waits for one for up to
// [Config.PositionWait], and then fails with [replica.ErrBehind] (REQ-R12). A transaction or [sql.Conn] that has its session stays there.
//
// A new connection to a replica is used only if it leads to the server that the sampler
// sees. Its session is made read-only, so that a write fails also on a server that was
// just promoted.
//
// # What counts against a replica
//
// Failed and refused connections, call timeouts, and SQLSTATE 57P01, 57P02, 57P03 and 08xxx
// count. SQLSTATEs are read from errors with a method SQLState() string, which those of
// pgx and lib/pq have. Other SQL errors, a caller's cancellation, an exhausted pool and a
// write sent to a read do not count. A caller's own deadline counts only for a call that lasted
// at least [Config.SlowCall] (REQ-B9).
//
// # Drivers
//
// The driver's connections must have QueryContext, ExecContext, PrepareContext and BeginTx;
// others are refused when they connect. Some drivers, lib/pq among them, do not end a call
// with its context while the server is silent: one second after the call timeout their connection
// is closed under them. A connect that does not end with its context is left behind; with lib/pq
// set connect_timeout, which ends it. To cancel a statement a driver may dial its server on its own account.
// [sql.Conn.Raw] gives a routed connection, not the driver's.
//
// # Concurrency
//
// All methods of [DB] and of what [DB.Reader] returns may be called at any time from any
// goroutine, but for what [Config.Observer] rules out for its functions. Open starts the
// Set's samplers and the pools' own goroutines; when a replica leaves the read set
// a goroutine closes its idle connections. [DB.Close] waits for the samplers, and not for calls
// under way, as [sql.DB.Close] does not. While a connection is being made a
// goroutine waits for the driver; one that ignores its context is left behind until it returns.
package sqlread
