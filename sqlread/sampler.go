package sqlread

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// sampleLinger is how long after the end of its time a driver may go on with a sample.
const sampleLinger = 100 * time.Millisecond

// sampler is a node's own connection outside of its pool, as database/sql sees it, which
// knows how to scan.
type sampler struct {
	link *link
	db   *sql.DB // of which link is the one connection
	conn *sql.Conn
}

// sample opens the sampler's connection.
func (n *node) sample(ctx context.Context) (replica.Conn, error) {
	l, err := within(ctx, func(ctx context.Context) (*link, error) { return n.open(ctx, n.SampleConnector, 0) })
	if err != nil {
		return nil, err
	}
	s := &sampler{link: l, db: sql.OpenDB(single{l, n.SampleConnector.Driver()})}
	if s.conn, err = s.db.Conn(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// single is the connector of a pool with one connection.
type single struct {
	link *link
	drv  driver.Driver
}

// Connect gives the connection.
func (s single) Connect(context.Context) (driver.Conn, error) { return s.link, nil }

// Driver is the one of the node's connector.
func (s single) Driver() driver.Driver { return s.drv }

// Look takes one sample. Where the driver does not end with ctx, its connection is closed under it.
func (s *sampler) Look(ctx context.Context) (replica.Look, error) {
	ended := s.bound(ctx)
	defer ended()
	return postgres.ScanLook(s.conn.QueryRowContext(ctx, postgres.SampleSQL))
}

// Flush has the primary flush what it has written, bounded as a sample is.
func (s *sampler) Flush(ctx context.Context) error {
	ended := s.bound(ctx)
	defer ended()
	var id string
	return s.conn.QueryRowContext(ctx, postgres.FlushSQL).Scan(&id)
}

// bound closes the connection under a driver that goes on for a while after ctx has ended, until ended is called.
func (s *sampler) bound(ctx context.Context) (ended func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(sampleLinger):
			_ = s.link.Close() // it is given up either way
		}
	})
	return func() { stop(); close(over) }
}

// Close closes the connection. It does not wait for the pool, which may still be in a
// goodbye of the driver's.
func (s *sampler) Close() {
	_ = s.link.Close() // it is given up either way
	_ = s.db.Close()
}
