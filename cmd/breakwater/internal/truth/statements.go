package truth

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
)

// SetupSQL makes the counter's table. It runs once on the primary, as the owner of
// the lab's database. The table holds one row, so that a lab left alone does not grow.
func SetupSQL() []string {
	return []string{
		`CREATE TABLE lab_counter (n int8 NOT NULL, at timestamptz NOT NULL)`,
		`INSERT INTO lab_counter VALUES (0, now())`,
	}
}
