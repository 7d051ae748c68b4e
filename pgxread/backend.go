package pgxread

import (
	"context"
	"errors"

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
	return route.IsBad(classify(err)) || route.Untried(err) || postgres.RetrySafe(postgres.SQLState(err)) || errors.Is(err, ErrCallTimeout)
}

// Sampled asks the Set.
func (b backend) Sampled() bool { return b.db.set.Sampled() }
