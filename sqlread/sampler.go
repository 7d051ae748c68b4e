package sqlread

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// sampler is a node's own connection outside of its pool, as database/sql sees it, which
// knows how to scan.
type sampler struct {
	link *link
	db   *sql.DB // of which link is the one connection
	conn *sql.Conn
}

// sample opens the sampler's connection.
func (n *node) sample(ctx context.Context) (replica.Conn, error) {
	c, err := connect(ctx, n.SampleConnector)
	if err != nil {
		return nil, err
	}
	l, err := newLink(n, 0, c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s := &sampler{link: l, db: sql.OpenDB(single{l, n.SampleConnector.Driver()})}
	if s.conn, err = s.db.Conn(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// noConnector stands in where no node is asked.
func noConnector(context.Context) (replica.Conn, error) { return nil, errNoNode }

// single is the connector of a pool with one connection.
type single struct {
	link *link
	drv  driver.Driver
}

// Connect gives the connection.
func (s single) Connect(context.Context) (driver.Conn, error) { return s.link, nil }

// Driver is the one of the node's connector.
func (s single) Driver() driver.Driver { return s.drv }

// Look takes one sample. A driver that does not look at ctx has the connection closed under it.
func (s *sampler) Look(ctx context.Context) (replica.Look, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.link.Close() }) // the sampler is done with it
	defer stop()
	return postgres.ScanLook(s.conn.QueryRowContext(ctx, postgres.SampleSQL))
}

// Close closes the connection. It does not wait for the pool, which may still be in a
// goodbye of the driver's.
func (s *sampler) Close() {
	_ = s.link.Close() // it is given up either way
	_ = s.db.Close()
}
