package postgres

import (
	"fmt"

	"github.com/breakwater-go/breakwater/replica"
)

// SampleSQL samples a primary or a replica in one round trip. It takes no
// parameters and returns one row, which [ScanLook] reads. It needs a role with the
// rights of pg_monitor (without them the WAL receiver's columns are null) and
// PostgreSQL 13 or newer.
//
// The reference on a primary is the insert position: with synchronous_commit=off a
// commit is acknowledged before its WAL is written, and an acknowledged commit was
// missing below the write position in 116 of 150 samples, below the insert
// position in none. The flush position is asked for beside it: it says what replicas can have.
const SampleSQL = `SELECT r.in_recovery,
 (SELECT system_identifier::text FROM pg_control_system()),
 ` + instance + `,
 CASE WHEN r.in_recovery THEN pg_last_wal_replay_lsn()::text ELSE pg_current_wal_insert_lsn()::text END,
 CASE WHEN r.in_recovery THEN pg_last_wal_receive_lsn()::text END,
 CASE WHEN r.in_recovery THEN NULL ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,
 CASE WHEN r.in_recovery THEN (SELECT received_tli::text FROM pg_stat_wal_receiver) END,
 (SELECT timeline_id::text FROM pg_control_checkpoint()),
 CASE WHEN r.in_recovery THEN (SELECT status FROM pg_stat_wal_receiver) END,
 CASE WHEN r.in_recovery THEN pg_is_wal_replay_paused() ELSE false END,
 pg_has_role('pg_read_all_stats', 'USAGE'),
 current_user::text,
 pg_size_bytes(current_setting('wal_segment_size')),
 CASE WHEN r.in_recovery THEN NULL ELSE pg_current_wal_flush_lsn()::text END
FROM (SELECT pg_is_in_recovery() AS in_recovery) r`

// InstanceSQL asks a server for its Look.Instance alone: one text. A connection that is
// made for reads asks it, to be on the server that the sampler sees and not on another
// one that took its place, or shares its address.
const InstanceSQL = "SELECT " + instance

// instance names a running server: no other one starts in the same microsecond on the same port.
const instance = `extract(epoch FROM pg_postmaster_start_time())::text || ':' || current_setting('port')`

// FlushSQL has a primary flush what it has written, by its WAL writer and at most three times
// wal_writer_delay later (200 ms by default): the statement takes a transaction ID, and so its end writes the record of
// an asynchronous commit, up to which the WAL writer flushes. It changes nothing, so logical decoding shows nothing of it, waits for no disk and
// for no synchronous standby, needs no rights and may run in a read-only transaction. It returns one
// text and fails on a replica. synchronous_commit is off for it alone, in case that looking its names up wrote WAL.
const FlushSQL = `SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text
 FROM pg_catalog.set_config('synchronous_commit', 'off', true)`

// Row is a row of SampleSQL: pgx.Row and *sql.Row satisfy it.
type Row interface{ Scan(dest ...any) error }

type sampleRow struct {
	inRecovery, paused, rights                          bool
	systemID, instance, user                            string
	position, received, walfileTLI, receivedTLI, ctlTLI *string
	receiver, flushed                                   *string
	segmentSize                                         int64
}

// ScanLook reads the row of SampleSQL.
func ScanLook(row Row) (replica.Look, error) {
	var r sampleRow
	err := row.Scan(&r.inRecovery, &r.systemID, &r.instance, &r.position, &r.received, &r.walfileTLI,
		&r.receivedTLI, &r.ctlTLI, &r.receiver, &r.paused, &r.rights, &r.user, &r.segmentSize, &r.flushed)
	if err != nil {
		return replica.Look{}, err
	}
	return r.look()
}

func (r *sampleRow) look() (replica.Look, error) {
	l := replica.Look{SystemID: r.systemID, Instance: r.instance, InRecovery: r.inRecovery, ReplayPaused: r.paused}
	var err error
	if l.Position, err = parseNull(r.position); err != nil {
		return l, err
	}
	if !r.inRecovery {
		l.Position = Normalize(l.Position, uint64(r.segmentSize))
		if l.Flushed, err = parseNull(r.flushed); err != nil {
			return l, err
		}
		l.Timeline, err = parseTimeline(r.walfileTLI, 16)
		return l, err
	}
	if !r.rights {
		l.MissingRights = fmt.Sprintf("the sampling role may not see the WAL receiver: GRANT pg_monitor TO %q", r.user)
	}
	l.ReceiverDown = r.receiver == nil || *r.receiver != "streaming"
	if l.Received, err = parseNull(r.received); err != nil {
		return l, err
	}
	err = r.replicaTimeline(&l)
	return l, err
}

// replicaTimeline prefers the receiver's timeline: the control file's lags until the
// next restart point.
func (r *sampleRow) replicaTimeline(l *replica.Look) (err error) {
	if r.receivedTLI != nil {
		l.Timeline, err = parseTimeline(r.receivedTLI, 10)
		return err
	}
	l.ControlTimeline, err = parseTimeline(r.ctlTLI, 10)
	return err
}
