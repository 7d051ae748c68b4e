package api

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A pipes is a listener whose connections are in memory, so that time can be a bubble's.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.conns) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Who sends slowly, or nothing, is waited for no longer than is said, also where it is refused (REQ-O4).
func TestSlowRequests(t *testing.T) {
	const head = " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
	for _, c := range []struct {
		name, sent string
		status     int
		within     time.Duration // the connection ends
	}{
		{"half a header", "GET /livez HTTP/1.1\r\nHo", 400, headerTimeout},
		{"half a body", "PATCH /api/v1/read-path" + head + "Authorization: Bearer " + token + "\r\n\r\n{", 400, bodyTimeout},
		{"a body without a credential", "PATCH /api/v1/read-path" + head + "\r\n{", 401, bodyTimeout},
		{"a body to nowhere", "POST /api/v1/nothing" + head + "Authorization: Bearer " + token + "\r\n\r\n", 404, bodyTimeout},
		{"nothing after its answer", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, idleTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := New(Config{Hub: NewHub(nil), Source: &source{}, Actions: &Standard{}, Token: func() string { return token }})
				if err != nil {
					t.Fatal(err)
				}
				ln := &pipes{conns: make(chan net.Conn, 1)}
				served := make(chan error, 1)
				go func() { served <- s.Serve(ln) }()
				ours, theirs := net.Pipe()
				ln.conns <- theirs
				began := time.Now()
				if _, err := io.WriteString(ours, c.sent); err != nil {
					t.Fatal(err)
				}
				in := bufio.NewReader(ours)
				answer, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				if answer.StatusCode != c.status {
					t.Errorf("got %d, want %d", answer.StatusCode, c.status)
				}
				if _, err := io.Copy(io.Discard, in); err != nil && !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("the end: %v", err)
				}
				if took := time.Since(began); took > c.within+time.Second {
					t.Errorf("it ended after %v, want %v", took, c.within)
				}
				s.Close()
				<-served
			})
		})
	}
}
