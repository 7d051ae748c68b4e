// Package relay is a TCP relay on loopback that breaks links on demand: it
// passes, refuses or swallows what goes through it, and can delay it. It
// stands between a replica and its primary, or between a client and a server.
//
// # Concurrency
//
// Every method may be called from any goroutine at any time. SetMode, SetDelay
// and SetTarget do not block on the network. Close returns after the last
// goroutine of the relay has ended.
package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	listenOn    = "127.0.0.1:0"
)

// ErrClosed is returned by the methods of a relay that was closed.
var ErrClosed = errors.New("relay: closed")

// Relay carries TCP connections from its own address to a target. Make one
// with New; the zero value is not usable.
type Relay struct {
	ln      net.Listener       // immutable
	ctx     context.Context    // ends with Close, bounds the dials of goroutines that no caller waits for
	cancel  context.CancelFunc // immutable
	wg      sync.WaitGroup     // the accept loop and every goroutine of a connection
	accepts atomic.Int64       // written by the accept loop only

	mu struct {
		sync.Mutex
		mode   Mode
		delay  time.Duration
		target string
		links  map[*link]struct{}
		closed bool
	}
}

// New listens on a free port of 127.0.0.1 and carries what connects there to
// target, a "host:port". The target is dialled for each connection anew, so it
// need not be up yet. The relay starts in mode Pass without delay.
func New(ctx context.Context, target string) (*Relay, error) {
	if err := checkTarget(target); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", listenOn)
	if err != nil {
		return nil, fmt.Errorf("relay: no port on 127.0.0.1: %w", err)
	}
	r := &Relay{ln: ln}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.mu.target = target
	r.mu.links = map[*link]struct{}{}
	r.wg.Go(r.accept)
	return r, nil
}

func checkTarget(target string) error {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return fmt.Errorf("relay: target %q: %w: write it as host:port", target, err)
	}
	return nil
}

// Addr returns the relay's own address, "127.0.0.1:port".
func (r *Relay) Addr() string { return r.ln.Addr().String() }

// Port returns the port of Addr.
func (r *Relay) Port() int {
	addr, ok := r.ln.Addr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	return addr.Port
}

// Accepts returns how many connections were accepted so far, in every mode.
func (r *Relay) Accepts() int64 { return r.accepts.Load() }

// Mode returns the present mode.
func (r *Relay) Mode() Mode {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.mode
}

// SetMode changes the mode at once, for existing connections too. Leaving
// Blackhole resets the connections that lost bytes or were opened in it, since
// a stream with a hole must not go on; those that were idle go on. Bytes whose
// writing had begun before the call may still arrive after it.
func (r *Relay) SetMode(m Mode) error {
	if !m.valid() {
		return fmt.Errorf("relay: mode %v: use Pass, Refuse or Blackhole", m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return ErrClosed
	}
	r.mu.mode = m
	for l := range r.mu.links {
		if m == Refuse || (m == Pass && l.holed) {
			l.reset()
		}
	}
	return nil
}

// SetDelay adds d to the way of every byte read from now on, in each
// direction. 0 adds nothing; a negative d is an error.
func (r *Relay) SetDelay(d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("relay: delay %v is negative: use 0 for none", d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.delay = d
	return nil
}

// SetTarget changes where connections are carried to. Existing ones are reset:
// their other end is at the old target.
func (r *Relay) SetTarget(target string) error {
	if err := checkTarget(target); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.target = target
	for l := range r.mu.links {
		l.reset()
	}
	return nil
}

// Close stops listening, resets every connection and waits for all goroutines.
// Further calls return nil.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.mu.closed = true
	for l := range r.mu.links {
		l.reset()
	}
	r.mu.Unlock()
	r.cancel()
	err := r.ln.Close()
	r.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("relay: close: %w", err)
	}
	return nil
}

func (r *Relay) accept() {
	for {
		c, err := r.ln.Accept()
		if err != nil {
			if r.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			r.pauseAccept() // out of file descriptors, or a peer gone already
			continue
		}
		r.accepts.Add(1)
		r.admit(c)
	}
}

func (r *Relay) pauseAccept() {
	select {
	case <-time.After(10 * time.Millisecond):
	case <-r.ctx.Done():
	}
}

// admit decides under the lock what becomes of a new connection, so that a
// SetMode after it finds the connection in the set, and one before it is obeyed.
func (r *Relay) admit(c net.Conn) {
	l := newLink(r.ctx, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed || r.mu.mode == Refuse {
		l.reset()
		return
	}
	r.mu.links[l] = struct{}{}
	l.holed = r.mu.mode == Blackhole
	holed, target := l.holed, r.mu.target
	r.wg.Go(func() {
		defer r.forget(l)
		if holed {
			l.drain()
			return
		}
		r.carry(l, target)
	})
}

func (r *Relay) forget(l *link) {
	l.reset()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.links, l)
}

func (r *Relay) delay() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.delay
}

// swallows says whether a chunk of l is to be dropped, and if so remembers
// that the stream has a hole. One lock for both, so that SetMode(Pass) either
// sees the hole or makes the chunk pass.
func (r *Relay) swallows(l *link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.mode == Blackhole {
		l.holed = true
	}
	return l.holed
}
