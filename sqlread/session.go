package sqlread

import (
	"context"
	"database/sql"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica"
)

// session is a node that statements of one routed connection run on, with a connection of its
// pool. It is used by one goroutine at a time.
type session struct {
	node   *node
	read   bool           // a write is refused, and says so
	choice replica.Choice // zero unless the session is a read's
	held   *sql.Conn      // nil before and after
	link   *link          // the connection that held holds

	// What its calls say about the node: the worst, else the newest.
	outcome breaker.Outcome
	err     error
}

// take takes a connection of the node's pool.
func (s *session) take(ctx context.Context) error {
	held, err := s.node.pool.Conn(ctx)
	if err != nil {
		return err
	}
	s.held = held
	// The link is used outside of Raw, where it cannot be: across calls. It is ours and
	// not a driver's, and held keeps all others from it.
	return held.Raw(func(conn any) error {
		s.link = conn.(*link)
		return nil
	})
}

// drop gives the connection back, to be closed if it is not usable any more.
func (s *session) drop() {
	if s.held != nil {
		_ = s.held.Close() // fails only if it was closed before
		s.held, s.link = nil, nil
	}
}

// note takes down the outcome of one call.
func (s *session) note(o breaker.Outcome, err error) {
	if route.IsBad(s.outcome) && (!route.IsBad(o) || s.outcome == breaker.Fatal) {
		return
	}
	s.outcome, s.err = o, err
}

// release gives the connection back and reports the outcome.
func (s *session) release() {
	s.drop()
	s.choice.DoneAs(s.outcome, s.err)
}
