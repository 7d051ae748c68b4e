package sqlread

import (
	"context"

	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// Backend is what a readpath.Router reads with: the loads that are given to readpath.Get make
// their reads through the DB, under the context that they are given.
func (db *DB) Backend() readpath.Backend { return backend{db} }

type backend struct{ db *DB }

// WithRead is WithRead and WithInfo.
func (backend) WithRead(ctx context.Context, req replica.Requirement, info *readpath.ReadInfo) context.Context {
	return route.Reading(ctx, intentKey{}, req, info)
}

// Eligible asks the Set.
func (b backend) Eligible(req replica.Requirement) bool { return b.db.set.Eligible(req) > 0 }

// Failed tells what counts against a node, what kept the call from one, and what another node might have answered: a
// server that is full, or that gave the read up for its recovery.
func (backend) Failed(err error) bool {
	return route.IsBad(classify(err)) || route.Untried(err) || postgres.RetrySafe(postgres.SQLState(err)) || route.IsAny(err, errLost, ErrCallTimeout)
}

// Sampled asks the Set.
func (b backend) Sampled() bool { return b.db.set.Sampled() }

// Position asks the primary for its position, in one round trip on a connection of its pool.
// Every commit that was acknowledged before the call lies before it, also an
// asynchronous one (synchronous_commit = off). A read under replica.WithPosition, or with it in its
// Requirement, then sees what they wrote (REQ-R12).
func (db *DB) Position(ctx context.Context) (replica.Position, error) {
	if d := max(db.cfg.CallTimeout, 0); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	return postgres.ScanPosition(db.primary.pool.QueryRowContext(ctx, postgres.PositionSQL))
}
