package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A visitor is a client's end of a connection.
type visitor struct {
	net.Conn
	in *bufio.Reader
}

func visit(ln *pipes) *visitor {
	ours, theirs := net.Pipe()
	ln.conns <- theirs
	return &visitor{ours, bufio.NewReader(ours)}
}

// well asks whether the process lives, and keeps the connection.
func (v *visitor) well(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(v, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Error(err)
		return
	}
	answer, err := http.ReadResponse(v.in, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("got %d, %v, want 200", answer.StatusCode, err)
	}
}

// Connections that nobody has shown a credential on are bounded in number: one too many waits, is told of and counted, and is served once another has ended (REQ-O4).
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(nil)
		s, err := New(Config{Hub: hub, Source: &source{}, Token: func() string { return token }, MaxConns: 2})
		if err != nil {
			t.Fatal(err)
		}
		ln := &pipes{conns: make(chan net.Conn, 10)}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		silent, idle := visit(ln), visit(ln)
		idle.well(t)
		synctest.Wait()
		if got := s.Stats(); got.Conns != 2 || got.Waited != 0 {
			t.Errorf("at the bound: got %+v, want 2 connections, and none that waited", got)
		}
		began := time.Now()
		visit(ln).well(t)
		if took := time.Since(began); took != headerTimeout {
			t.Errorf("it was answered after %v, want %v, when the silent one has ended", took, headerTimeout)
		}
		_ = silent.Close()
		_ = idle.Close()
		synctest.Wait()
		if got := s.Stats(); got.Conns != 1 || got.Waited != 1 {
			t.Errorf("afterwards: got %+v, want 1 connection, and 1 that waited", got)
		}
		for range 3 {
			visit(ln) // the newest waits when the end comes
		}
		synctest.Wait()
		if got := s.Stats(); got.Conns != 2 || got.Waited != 2 {
			t.Errorf("at the bound again: got %+v", got)
		}
		events := hub.Kept()
		told := 0
		for _, e := range events {
			if strings.Contains(e.Error, "2 connections are open") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times within a minute, want once: %+v", told, events)
		}
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		for len(ln.conns) > 0 {
			_ = (<-ln.conns).Close()
		}
	})
}

// Half of the files are for other than clients.
func TestConnsFor(t *testing.T) {
	for files, want := range map[uint64]int{1: 1, 256: 128, 1024: 512, 65536: mostConns, 1<<64 - 1: mostConns} {
		if got := connsFor(files); got != want {
			t.Errorf("of %d files: got %d connections, want %d", files, got, want)
		}
	}
}
