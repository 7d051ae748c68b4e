package pgxread

import (
	"context"
	"sync"

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
	return withIntent(ctx, func(in *intent) { in.read, in.req, in.info, in.together = true, req, info, new(sync.Mutex) })
}

// Eligible asks the Set.
func (b backend) Eligible(req replica.Requirement) bool { return b.db.set.Eligible(req) > 0 }

// Failed tells what counts against a node, what kept the call from one, and what another node might have answered: a
// server that is full, or that gave the read up for its recovery.
func (backend) Failed(err error) bool {
	return isBad(classify(err)) || postgres.RetrySafe(sqlstate(err)) || isAny(err, errFenced, errMoved, errOtherServer, ErrCallTimeout)
}

// Sampled asks the Set.
func (b backend) Sampled() bool { return b.db.set.Sampled() }
