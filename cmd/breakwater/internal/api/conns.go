package api

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// mostConns is how many connections are served at once, whoever they are of: before a request has come nobody has shown a credential, and each holds a file
// descriptor and about 20 KB. It is over the 64 clients of the stream by far, and leaves emitters that keep theirs open, some for each of their processes, room.
const mostConns = 1024

// connsFor is how many connections a process may serve that may have so many files open: half of them are left to the samplers, the pools and the stores.
func connsFor(files uint64) int { return int(max(min(mostConns, files/2), 1)) }

func defaultMaxConns() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return mostConns
	}
	return connsFor(files.Cur)
}

// tellFullEvery is the least time between two events that tell of it: an attack must not drive all else out of the history.
const tellFullEvery = time.Minute

// conns are the places for connections.
type conns struct {
	places chan struct{}   // one in it for each connection that is served
	ending <-chan struct{} // nobody waits any more
	waited atomic.Uint64   // connections that had to
	full   func(most int)  // is told so, by each listener at most once in tellFullEvery
}

// limited is a listener that has at most as many connections open as there are places. The newest one waits, accepted and unread, until one ends; those that
// come after it wait in the kernel's queue.
type limited struct {
	net.Listener
	conns *conns
	told  time.Time // of the goroutine that accepts
}

// Accept waits for a connection, and then for its place.
func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := l.conns
	select {
	case c.places <- struct{}{}:
		return c.placed(conn), nil
	default:
	}
	l.tellFull()
	select {
	case c.places <- struct{}{}:
		return c.placed(conn), nil
	case <-c.ending:
		_ = conn.Close() // nothing was said on it
		return nil, net.ErrClosed
	}
}

func (c *conns) placed(conn net.Conn) net.Conn {
	return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-c.places })}
}

func (l *limited) tellFull() {
	l.conns.waited.Add(1)
	if now := time.Now(); l.told.IsZero() || now.Sub(l.told) >= tellFullEvery {
		l.told = now
		l.conns.full(cap(l.conns.places))
	}
}

// A placed connection gives its place back when it is closed.
type placed struct {
	net.Conn
	leave func()
}

// Close closes it.
func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}

// NetConn is the connection below, as tls.Conn has it.
func (p *placed) NetConn() net.Conn { return p.Conn }

func (s *Server) tellFull(most int) {
	s.conf.Hub.Fault("http", fmt.Errorf("%d connections are open, the most at once: newer ones wait until one ends", most))
}
