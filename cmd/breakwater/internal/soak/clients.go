package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// A reader is a client of the stream, as the page is one.
type reader struct {
	url  string
	done chan struct{}

	// Written by its goroutine, read after wait.
	generations map[string]uint64 // the newest seen of each breaker, "scope/name"
	holes       int               // transitions that were missing
	gaps        int
	events      int
	statuses    int
	transitions int
	reconnects  int
	late        []float64 // ms from a transition to its reader
}

func newReader(url string) *reader {
	return &reader{url: url, done: make(chan struct{}), generations: map[string]uint64{}}
}

func (r *reader) begin() {
	go func() {
		defer close(r.done)
		r.read()
	}()
}

func (r *reader) wait() { <-r.done }

// read reads until the stream ends for good, and resumes where it was cut.
func (r *reader) read() {
	last := ""
	for range 3 {
		stopped, err := r.once(&last)
		if stopped || err != nil {
			return
		}
		r.reconnects++
	}
}

// once reads one connection; stopped: the daemon said that it ends.
func (r *reader) once(last *string) (stopped bool, err error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, r.url+"/api/v1/events?after=0", http.NoBody)
	if err != nil {
		return false, err
	}
	if *last != "" {
		req.Header.Set("Last-Event-ID", *last)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close() //nolint:errcheck // it is at its end
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("stream: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	kind := ""
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "id":
			*last = value
		case "event":
			kind = value
		case "data":
			stopped = r.take(kind, value) || stopped
		}
	}
	return stopped, nil
}

// An event is what is looked at.
type event struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"`
	Scope      string    `json:"scope"`
	Name       string    `json:"name"`
	Generation uint64    `json:"generation"`
}

// take counts one message; it tells whether it says that the process ends.
func (r *reader) take(kind, data string) (stops bool) {
	switch kind {
	case "status":
		r.statuses++
		return false
	case "gap":
		r.gaps++
		return false
	}
	var e event
	if json.Unmarshal([]byte(data), &e) != nil {
		return false
	}
	r.events++
	if e.Kind != "transition" {
		return e.Kind == "stop"
	}
	r.transitions++
	r.late = append(r.late, float64(time.Since(e.At))/float64(time.Millisecond))
	breaker := e.Scope + "/" + e.Name
	if before := r.generations[breaker]; e.Generation != before+1 {
		r.holes++
	}
	r.generations[breaker] = e.Generation
	return false
}

// mute connects, asks for the stream, and reads nothing of it, again and again.
type mute struct {
	address string
	conns   []net.Conn
	opened  int
}

// mutes is how many of them there are at a time.
const mutes = 2

func (m *mute) run(ctx context.Context) {
	for m.open(); pause(ctx, 20*time.Second); m.open() {
	}
	for _, c := range m.conns {
		_ = c.Close()
	}
}

func (m *mute) open() {
	for range mutes {
		c, err := net.DialTimeout("tcp", m.address, time.Second) //nolint:noctx // it has a timeout
		if err != nil {
			return
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096)
		}
		_, _ = fmt.Fprintf(c, "GET /api/v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		m.conns = append(m.conns, c)
		m.opened++
	}
}
