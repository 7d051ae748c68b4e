package postgres

import (
	"errors"
	"strconv"

	"github.com/breakwater-go/breakwater/replica"
)

// PositionSQL asks a primary for its position in one round trip. It takes no parameters and
// returns one row of texts, which [ScanPosition] reads. Sent after a commit, on whichever connection, it covers that commit:
// the insert position lies past the commit's record also where synchronous_commit is off
// and the record has not been written yet. It needs no rights, fails on a replica,
// and means the same under any search_path.
const PositionSQL = `SELECT (SELECT c.system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system() c),
 pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8),
 pg_catalog.pg_current_wal_insert_lsn()::pg_catalog.text,
 pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size'))::pg_catalog.text`

// ScanPosition reads the row of PositionSQL.
func ScanPosition(row Row) (replica.Position, error) {
	var system, timeline, insert, segment string
	if err := row.Scan(&system, &timeline, &insert, &segment); err != nil {
		return replica.Position{}, err
	}
	t, errT := parseTimeline(&timeline, 16)
	lsn, errL := ParseLSN(insert)
	size, errS := strconv.ParseUint(segment, 10, 64)
	if err := errors.Join(errT, errL, errS); err != nil {
		return replica.Position{}, err
	}
	return replica.Position{SystemID: system, Timeline: t, LSN: Normalize(lsn, size)}, nil
}
