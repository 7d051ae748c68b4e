package pgxread

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/internal/route"
)

// linger is how long a connection that pgx gave up may take to say goodbye. pgx's own
// limit is 15 s, for which a frozen server would hold a place of its pool, and Close.
const linger = time.Second

type checkKey struct{}

// asCheck marks ctx as Breakwater's own: its connections pass the guard.
func asCheck(ctx context.Context) context.Context {
	return context.WithValue(ctx, checkKey{}, true)
}

// IsCheck tells a hook of a pool's configuration (BeforeConnect, DialFunc), or a tracer, that the
// connection or the statement is Breakwater's own, for a probe or a sampler, not a request's.
func IsCheck(ctx context.Context) bool { return ctx.Value(checkKey{}) != nil }

// attempt is one connection being made, and the guard in its way (REQ-R7).
type attempt struct {
	check  bool
	admits func() bool
	dial   pgconn.DialFunc
	// made is set once the connection stands; what is dialled after that is a request
	// to cancel its statement.
	made atomic.Bool
}

// guard puts the guard around what is configured in c, for one connection.
func guard(ctx context.Context, c *pgx.ConnConfig, admits func() bool) {
	a := &attempt{check: IsCheck(ctx), admits: admits, dial: c.DialFunc}
	c.DialFunc = a.dialGuarded
	after := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		a.made.Store(true)
		if after == nil {
			return nil
		}
		return after(ctx, conn)
	}
}

func (a *attempt) dialGuarded(ctx context.Context, network, addr string) (net.Conn, error) {
	made := a.made.Load()
	if (made || !a.check) && !a.admits() {
		return nil, route.ErrFenced
	}
	if made {
		return a.dialCancel(ctx, network, addr)
	}
	conn, err := a.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &lingerConn{Conn: conn}, nil
}

// dialCancel opens the connection for a cancel request, which pgx bounds only by 15 s.
func (a *attempt) dialCancel(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, linger)
	defer stop()
	conn, err := a.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(linger))
}

// lingerConn shortens the goodbye of a connection: pgx sets a deadline in the future
// on a connection only when it gives it up.
type lingerConn struct{ net.Conn }

// SetDeadline sets t, or linger from now if that is sooner.
func (c *lingerConn) SetDeadline(t time.Time) error {
	if limit := time.Now().Add(linger); t.After(limit) {
		t = limit
	}
	return c.Conn.SetDeadline(t)
}
