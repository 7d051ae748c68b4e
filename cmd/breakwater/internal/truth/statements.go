package truth

import "time"

// The lab's own statements: a closed set, so that the simulated fleet can answer
// the same ones as PostgreSQL.
const (
	// WriteSQL commits the counter's next value, $1 int8, with its time. $2 is the
	// transaction's synchronous_commit: set_config with is_local holds to the end of
	// the transaction, and the commit reads it before that.
	WriteSQL = `WITH s AS (SELECT set_config('synchronous_commit', $2::text, true))
UPDATE lab_counter SET n = $1::int8, at = clock_timestamp() FROM s`
	// ReadSQL reads the newest value that a node shows.
	ReadSQL = `SELECT n FROM lab_counter`
	// SlowReadSQL is ReadSQL by a query that takes SlowRead.
	SlowReadSQL = `SELECT n FROM lab_counter, pg_sleep(0.02)`
	// InsertSQL writes a row of its own, with the key $1 int8, which FindSQL counts: 1 or 0.
	InsertSQL = `INSERT INTO lab_row VALUES ($1::int8)`
	// FindSQL counts the rows with the key $1 int8.
	FindSQL = `SELECT count(*) FROM lab_row WHERE id = $1::int8`
)

// SlowRead is how long SlowReadSQL takes at the least.
const SlowRead = 20 * time.Millisecond

// SetupSQL makes the lab's tables. It runs once on the primary, as the owner of
// the lab's database. The counter's table holds one row, so that a lab left alone does not grow.
func SetupSQL() []string {
	return []string{
		`CREATE TABLE lab_counter (n int8 NOT NULL, at timestamptz NOT NULL)`,
		`INSERT INTO lab_counter VALUES (0, now())`,
		`CREATE TABLE lab_row (id int8 PRIMARY KEY)`,
	}
}
