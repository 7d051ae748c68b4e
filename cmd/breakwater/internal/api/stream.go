package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// heartbeat is after how long without anything else a comment is sent.
	heartbeat = 15 * time.Second
	// sendBuffer is what the kernel may hold for a client of the stream: a large one would hide for minutes that nobody reads.
	sendBuffer = 16 << 10
)

// streams counts the clients of the stream.
type streams struct {
	mu      sync.Mutex
	max     int // immutable
	now     int
	cutOff  uint64
	refused uint64
	closed  bool
	running sync.WaitGroup
}

// enter takes a place, if there is one.
func (s *streams) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.now >= s.max {
		s.refused++
		return false
	}
	s.now++
	s.running.Add(1)
	return true
}

func (s *streams) leave(cutOff bool) {
	s.mu.Lock()
	s.now--
	if cutOff {
		s.cutOff++
	}
	s.mu.Unlock()
	s.running.Done()
}

func (s *streams) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

func (s *streams) wait() { s.running.Wait() }

func (s *streams) stats() (now int, cutOff, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.cutOff, s.refused
}

// events is GET /api/v1/events: server-sent events, until the client goes, does not read, or Close.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	from, err := s.resumed(r)
	if err != nil {
		return err
	}
	if !s.streams.enter() {
		w.Header().Set("Retry-After", "5")
		return fmt.Errorf("%w: %d clients read the stream: close one of them", ErrBusy, s.conf.MaxClients)
	}
	c := &client{s: s, w: w, out: http.NewResponseController(w), place: from}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy is not to wait for more
	if r.Method == http.MethodHead {
		s.streams.leave(false)
		return nil
	}
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		shrink(conn)
	}
	err = c.run(r.Context())
	s.streams.leave(errors.Is(err, os.ErrDeadlineExceeded))
	if err != nil {
		panic(http.ErrAbortHandler) // nothing can be said any more
	}
	return nil
}

// shrink has the kernel hold little for a client.
func shrink(conn net.Conn) {
	for {
		below, ok := conn.(interface{ NetConn() net.Conn }) // of TLS, or one that has a place
		if !ok {
			break
		}
		conn = below.NetConn()
	}
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(sendBuffer) // a larger one only tells later
	}
}

// A place is where in the stream a client is.
type place struct {
	after     uint64
	restarted bool // it has seen events of an earlier process
	fresh     bool // it has seen none, and misses none
}

// resumed is where a client goes on: after the ID in Last-Event-ID or ?after=; with "now" at the next event, without either at the oldest that is kept.
func (s *Server) resumed(r *http.Request) (place, error) {
	field, id := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if id == "" {
		field, id = "after", r.URL.Query().Get("after")
	}
	switch id {
	case "":
		return place{fresh: true}, nil
	case "now":
		return place{after: s.conf.Hub.Last()}, nil
	}
	boot, number, ok := strings.Cut(id, "-")
	if !ok {
		boot, number = s.conf.Hub.Boot(), id
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return place{}, &InvalidError{[]FieldFault{{field, quote(id), "use the id of an event as it was sent, its number, or now"}}}
	}
	if boot != s.conf.Hub.Boot() {
		return place{restarted: true}, nil
	}
	return place{after: min(n, s.conf.Hub.Last())}, nil
}

// A client reads the stream.
type client struct {
	place
	s   *Server
	w   http.ResponseWriter
	out *http.ResponseController
}

// run sends until the client goes, which is no error, or the Server ends.
func (c *client) run(ctx context.Context) error {
	if err := c.send([]byte("retry: 1000\n\n")); err != nil {
		return c.gone(ctx, err)
	}
	quiet := time.NewTimer(heartbeat)
	defer quiet.Stop()
	for told := -1; ; {
		frame, n, ticked := c.s.history.current()
		if n == told {
			frame = nil
		}
		woken, err := c.catchUp(frame)
		if err != nil {
			return c.gone(ctx, err)
		}
		told = n
		quiet.Reset(heartbeat)
		select {
		case <-ctx.Done():
			return nil
		case <-c.s.ending.Done():
			_, err := c.catchUp(nil) // what was told last, such as that the process ends
			return c.gone(ctx, err)
		case <-woken:
		case <-ticked:
		case <-quiet.C:
			err = c.send([]byte(": still here\n\n"))
		}
		if err != nil {
			return c.gone(ctx, err)
		}
	}
}

// gone is the error of a write, nil if that only says that the client has gone.
func (c *client) gone(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// catchUp sends all events that there are, and then a frame. The channel is closed by the next event.
func (c *client) catchUp(frame []byte) (<-chan struct{}, error) {
	if c.restarted {
		if err := c.gap(0); err != nil {
			return nil, err
		}
		c.restarted, c.fresh = false, true
	}
	for {
		entries, missed, woken := c.s.conf.Hub.take(c.after)
		if missed > 0 && !c.fresh {
			if err := c.gap(missed); err != nil {
				return nil, err
			}
		}
		var text []byte
		for _, e := range entries {
			text = append(text, e.framed(c.s.conf.Hub.boot)...)
			c.after = e.ID
		}
		c.fresh = false
		if woken != nil {
			text = append(text, frame...)
		}
		if len(text) > 0 {
			if err := c.send(text); err != nil {
				return nil, err
			}
		}
		if woken != nil {
			return woken, nil
		}
	}
}

// gap tells how many events the client has missed; of an earlier process nobody knows.
func (c *client) gap(missed uint64) error {
	return c.send(fmt.Appendf(nil, "event: gap\ndata: {\"missed\":%d,\"restarted\":%t}\n\n", missed, c.restarted))
}

// send writes, each piece with a deadline of its own: who does not read is cut off, not who is slow.
func (c *client) send(text []byte) error {
	for piece := range slices.Chunk(text, sendBuffer) {
		if err := c.write(piece); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) write(piece []byte) error {
	deadline := time.Now().Add(c.s.conf.WriteTimeout)
	err := c.out.SetWriteDeadline(deadline)
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	_, err = c.w.Write(piece)
	if err == nil {
		err = c.out.Flush()
	}
	switch {
	case err == nil, errors.Is(err, http.ErrNotSupported):
		return nil
	case time.Now().Before(deadline):
		return err
	}
	return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err) // HTTP/2 says only that the stream is closed
}

// framed is the event as the stream writes it, made once.
func (e *entry) framed(boot string) []byte {
	e.once.Do(func() {
		text, err := json.Marshal(&e.Event)
		if err != nil { // a time out of range
			text = fmt.Appendf(nil, `{"id":%d,"kind":%q,"error":"it cannot be told as JSON"}`, e.ID, KindFault)
		}
		e.frame = fmt.Appendf(nil, "id: %s-%d\nevent: event\ndata: %s\n\n", boot, e.ID, text)
	})
	return e.frame
}
