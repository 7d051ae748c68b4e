package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkBytes = 32 << 10
	// A direction holds at most this many chunks (8 MiB) while they wait for
	// the added delay; then it stops reading, as a full network buffer would.
	maxChunks = 256
)

// link is one relayed connection.
type link struct {
	client net.Conn           // immutable
	ctx    context.Context    // ends with reset, which comes from goroutines that did not start the link
	cancel context.CancelFunc // immutable

	holed bool // guarded by Relay.mu: bytes or a closing were swallowed

	up struct {
		sync.Mutex
		conn net.Conn // nil until dialled
	}
}

func newLink(ctx context.Context, client net.Conn) *link {
	l := &link{client: client}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// reset closes both sides with a reset instead of an orderly end.
func (l *link) reset() {
	l.cancel()
	abort(l.client)
	l.up.Lock()
	defer l.up.Unlock()
	if l.up.conn != nil {
		abort(l.up.conn)
	}
}

// abort makes the peer see a reset. Errors mean that the connection has ended.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// drain reads and drops what the client sends until either side ends it.
func (l *link) drain() {
	_, err := io.Copy(io.Discard, l.client)
	if err == nil {
		<-l.ctx.Done() // a closing is swallowed too: the descriptor is held until the mode changes
	}
}

func (r *Relay) carry(l *link, target string) {
	up, err := l.dial(target)
	if err != nil {
		return // forget resets the client, as a link to a dead server does
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.pump(l, up, l.client) })
	wg.Go(func() { r.pump(l, l.client, up) })
	wg.Wait()
}

// dial connects to the target; a reset during it ends it.
func (l *link) dial(target string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(l.ctx, "tcp", target)
	if err != nil {
		return nil, err
	}
	l.up.Lock()
	defer l.up.Unlock()
	if l.ctx.Err() != nil { // reset found no conn to close
		abort(conn)
		return nil, net.ErrClosed
	}
	l.up.conn = conn
	return conn, nil
}

type chunk struct {
	data []byte
	due  time.Time // zero: now
	err  error     // io.EOF for an orderly end; the last chunk of a direction
}

// pump carries one direction: a reader that stamps chunks with the time they
// are due, and a writer that waits for it. A queue between them lets the delay
// shift the stream instead of slowing it.
func (r *Relay) pump(l *link, dst, src net.Conn) {
	queue := make(chan chunk, maxChunks)
	var wg sync.WaitGroup
	wg.Go(func() { r.read(l, src, queue) })
	wg.Go(func() { r.write(l, dst, queue) })
	wg.Wait()
}

func (r *Relay) read(l *link, src net.Conn, queue chan<- chunk) {
	defer close(queue)
	buf := make([]byte, chunkBytes)
	for {
		n, err := src.Read(buf)
		c := chunk{data: append([]byte(nil), buf[:n]...), err: err}
		if d := r.delay(); d > 0 {
			c.due = time.Now().Add(d)
		}
		select {
		case queue <- c:
		case <-l.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (r *Relay) write(l *link, dst net.Conn, queue <-chan chunk) {
	for c := range queue {
		if !l.waitUntil(c.due) || !r.deliver(l, dst, c) {
			return
		}
	}
}

// deliver passes on one chunk and says whether the direction goes on.
func (r *Relay) deliver(l *link, dst net.Conn, c chunk) bool {
	if r.swallows(l) {
		if c.err != nil {
			<-l.ctx.Done() // the other side must not learn of the end
		}
		return c.err == nil
	}
	if _, err := dst.Write(c.data); err != nil {
		l.reset()
		return false
	}
	if c.err == nil {
		return true
	}
	if !errors.Is(c.err, io.EOF) || closeWrite(dst) != nil {
		l.reset()
	}
	return false
}

// waitUntil returns false if the link was reset before due.
func (l *link) waitUntil(due time.Time) bool {
	if due.IsZero() {
		return true
	}
	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

func closeWrite(c net.Conn) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c.Close()
	}
	return tcp.CloseWrite()
}
