package pgxread

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

const (
	samplerName = "breakwater-sampler"
	// samplerGoodbye bounds the close of a sampler's connection.
	samplerGoodbye = 100 * time.Millisecond
)

// connector opens the sampler's own connections: by its own DSN, or as the pool does,
// with the hook that makes its connections, but none of its places.
func (n *node) connector(own *pgx.ConnConfig, pool *pgxpool.Config) replica.Connector {
	base, before := own, pool.BeforeConnect
	if own == nil {
		base = pool.ConnConfig
	} else {
		before = nil
	}
	return func(ctx context.Context) (replica.Conn, error) {
		ctx = asCheck(ctx)
		c := base.Copy()
		c.RuntimeParams["application_name"] = samplerName
		if before != nil {
			if err := before(ctx, c); err != nil {
				return nil, err
			}
		}
		guard(ctx, c, never)
		conn, err := pgx.ConnectConfig(ctx, c)
		if err != nil {
			return nil, err
		}
		return &sampler{conn: conn}, nil
	}
}

// never admits nobody: nothing is dialled to cancel a sampler's statement.
func never() bool { return false }

type sampler struct{ conn *pgx.Conn }

// Look takes one sample.
func (s *sampler) Look(ctx context.Context) (replica.Look, error) {
	return postgres.ScanLook(s.conn.QueryRow(asCheck(ctx), postgres.SampleSQL))
}

// Flush has the primary flush what it has written. A query needs no begin and no end of a transaction.
func (s *sampler) Flush(ctx context.Context) error {
	_, err := s.conn.Exec(asCheck(ctx), postgres.FlushSQL)
	return err
}

// Close says goodbye for at most 100 ms.
func (s *sampler) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), samplerGoodbye)
	defer cancel()
	_ = s.conn.Close(ctx) // the sampler is done with it either way
}
