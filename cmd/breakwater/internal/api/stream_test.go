package api

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A source tells one status, and counts how often it is asked.
type source struct {
	asked  atomic.Int64
	panics atomic.Bool
	hangs  atomic.Bool
	hang   chan struct{} // until when
}

func (*source) Parts() Parts { return Parts{} }

func (s *source) Status() Status {
	n := s.asked.Add(1)
	if s.hangs.Load() {
		<-s.hang
	}
	if s.panics.Load() {
		panic("no status: " + secret)
	}
	return Status{Mode: "serve", Version: strconv.FormatInt(n, 10), Replicas: []Replica{}, Consumers: []Consumer{}}
}

// A frame is one part of the stream.
type frame struct{ id, event, data string }

// A reader reads the stream.
type reader struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Scanner
	passed []string // kinds of the frames that were passed over
}

func stream(t *testing.T, base, query string, headers ...string) *reader {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/events"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return &reader{t: t, answer: answer, lines: lines}
}

// next is the next frame of that kind; others are passed over. ok is false at the end of the stream.
func (r *reader) next(kind string) (f frame, ok bool) {
	for r.lines.Scan() {
		line := r.lines.Text()
		if line == "" {
			if f.event == kind {
				return f, true
			}
			r.passed = append(r.passed, f.event)
			f = frame{}
			continue
		}
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			f.data = value
		}
	}
	return f, false
}

// want is the next event, which must have that text.
func (r *reader) want(text string) frame {
	r.t.Helper()
	f, ok := r.next("event")
	if !ok || parsed[Event](r.t, f.data).Text != text {
		r.t.Fatalf("got %+v, %t, want the event %q", f, ok, text)
	}
	return f
}

func newStream(t *testing.T, change func(*Config)) (*Hub, *Server, string) {
	t.Helper()
	w := &world{t: t, hub: NewHub(nil)}
	c := Config{Hub: w.hub, Source: &source{}}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return w.hub, s, w.listen(s)
}

// A client goes on after the event that it saw last, wherever it says so, and is told of what it can have missed.
func TestStreamResumes(t *testing.T) {
	h, _, base := newStream(t, nil)
	for _, text := range []string{"one", "two", "three"} {
		h.Publish(Event{Kind: KindAction, Text: text})
	}
	first := stream(t, base, "")
	if got := first.answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got %q", got)
	}
	f := first.want("one")
	if want := h.Boot() + "-1"; f.id != want {
		t.Errorf("id: got %q, want %q", f.id, want)
	}
	stream(t, base, "", "Last-Event-ID", f.id).want("two")
	stream(t, base, "?after="+h.Boot()+"-2").want("three")
	stream(t, base, "?after=2").want("three")

	now := stream(t, base, "?after=now")
	if _, ok := now.next("status"); !ok {
		t.Fatal("no status")
	}
	h.Publish(Event{Kind: KindAction, Text: "four"})
	now.want("four")
	future := stream(t, base, "?after=99") // there is no such one yet: it gets the next
	if _, ok := future.next("status"); !ok {
		t.Fatal("no status")
	}
	h.Publish(Event{Kind: KindAction, Text: "five"})
	future.want("five")

	other := stream(t, base, "", "Last-Event-ID", "0badb007-2")
	if gap, ok := other.next("gap"); !ok || gap.data != `{"missed":0,"restarted":true}` {
		t.Errorf("got %+v, want to be told of the restart", gap)
	}
	other.want("one")
}

func TestStreamGap(t *testing.T) {
	h, _, base := newStream(t, nil)
	for range hubSize + 5 {
		h.Publish(Event{Kind: KindAction})
	}
	r := stream(t, base, "?after=2")
	if gap, ok := r.next("gap"); !ok || gap.data != `{"missed":3,"restarted":false}` {
		t.Errorf("got %+v, want 3 missed", gap)
	}
	for id := uint64(6); id <= hubSize+5; id++ {
		f, ok := r.next("event")
		if got := parsed[Event](t, f.data).ID; !ok || got != id {
			t.Fatalf("got %d, want %d", got, id)
		}
	}
	fresh := stream(t, base, "")
	if f := fresh.want(""); f.id != h.Boot()+"-6" || slices.Contains(fresh.passed, "gap") {
		t.Errorf("a new client begins at the oldest that is kept, and misses none: got %+v after %q", f, fresh.passed)
	}
}

// A client that reads nothing delays nobody who publishes, is cut off, and counted.
func TestStreamThatNobodyReads(t *testing.T) {
	h, s, base := newStream(t, func(c *Config) { c.WriteTimeout = 500 * time.Millisecond })
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(1024); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	begin := make([]byte, 12)
	if _, err := conn.Read(begin); err != nil || string(begin) != "HTTP/1.1 200" {
		t.Fatalf("got %q, %v", begin, err)
	}
	statuses := make(chan string)
	reads := stream(t, base, "?after=now")
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(statuses)
		for f, ok := reads.next("status"); ok; f, ok = reads.next("status") {
			select {
			case statuses <- f.data:
			default:
			}
		}
	})
	text := strings.Repeat("x", 8<<10)
	for range 4096 { // 32 MB: more than any buffer between; none of it waits
		h.Publish(Event{Kind: KindAction, Text: text})
	}
	for s.Stats().CutOff == 0 {
		if _, ok := <-statuses; !ok { // one a second
			t.Fatal("the stream of a client that reads has ended")
		}
	}
	if got := s.Stats(); got.CutOff != 1 || got.Clients != 1 {
		t.Errorf("got %+v, want one cut off and one left", got)
	}
	if told := parsed[Status](t, <-statuses).Stream; told.CutOff != 1 {
		t.Errorf("got %+v", told)
	}
	s.Close()
	reading.Wait()
}

func TestStreamIsLimited(t *testing.T) {
	_, s, base := newStream(t, func(c *Config) { c.MaxClients = 1 })
	first := stream(t, base, "")
	if _, ok := first.next("status"); !ok {
		t.Fatal("no status")
	}
	second := stream(t, base, "")
	if second.answer.StatusCode != http.StatusServiceUnavailable || second.answer.Header.Get("Retry-After") != "5" {
		t.Errorf("got %d, Retry-After %q, want 503 and 5", second.answer.StatusCode, second.answer.Header.Get("Retry-After"))
	}
	if got := s.Stats(); got.Clients != 1 || got.Refused != 1 {
		t.Errorf("got %+v", got)
	}
	first.answer.Body.Close() // its place is free as soon as the server sees it
	for {
		if r := stream(t, base, ""); r.answer.StatusCode == http.StatusOK {
			return
		}
	}
}

// At the end each client gets what was published last.
func TestStreamEnds(t *testing.T) {
	h, s, base := newStream(t, nil)
	r := stream(t, base, "")
	if _, ok := r.next("status"); !ok {
		t.Fatal("no status")
	}
	h.Publish(Event{Kind: KindStop, Text: "the process ends"})
	var closing sync.WaitGroup
	closing.Go(s.Close)
	r.want("the process ends")
	if f, ok := r.next("event"); ok {
		t.Errorf("got %+v after the end", f)
	}
	closing.Wait()
	if got := s.Stats(); got.Clients != 0 || got.CutOff != 0 {
		t.Errorf("got %+v", got)
	}
}

// What was published before the end is sent, also to a client that was just being written to.
func TestStreamEndsWithAllOfIt(t *testing.T) {
	for range 20 { // which of two things a select sees first is drawn
		synctest.Test(t, func(t *testing.T) {
			h := NewHub(nil)
			s, err := New(Config{Hub: h, Source: &source{}})
			if err != nil {
				t.Fatal(err)
			}
			out := &sink{header: http.Header{}, release: make(chan struct{})}
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/events", http.NoBody)
			go s.Handler().ServeHTTP(out, r)
			synctest.Wait() // it waits for an event
			out.holds.Store(true)
			time.Sleep(tickEvery)
			synctest.Wait() // it writes the status
			h.Publish(Event{Kind: KindStop, Text: "the process ends"})
			time.AfterFunc(time.Millisecond, func() { close(out.release) })
			s.Close()
			if !strings.Contains(out.text.String(), "the process ends") {
				t.Errorf("got %s", &out.text)
			}
		})
	}
}

// The Status is asked for once a second, whoever reads; the last 15 minutes are kept.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		s, err := New(Config{Hub: NewHub(nil), Source: src})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		time.Sleep(1000*time.Second + time.Millisecond)
		synctest.Wait()
		if got := src.asked.Load(); got != 1001 {
			t.Errorf("asked %d times, want 1001", got)
		}
		_, body := ask(t, s.Handler(), "GET", "/api/v1/history", "")
		all := parsed[[]Status](t, body)
		if len(all) != historySize || all[0].Version != "102" || all[historySize-1].Version != "1001" {
			t.Errorf("got %d from %s", len(all), all[0].Version)
		}
		_, body = ask(t, s.Handler(), "GET", "/api/v1/history?seconds=2", "")
		if two := parsed[[]Status](t, body); len(two) != 2 || two[1].Version != "1001" {
			t.Errorf("got %s", body)
		}
		_, body = ask(t, s.Handler(), "GET", "/api/v1/export", "")
		run := parsed[struct {
			Kind    string
			Version int
			Events  []Event
			History []Status
		}](t, body)
		if run.Kind != "breakwater-run" || run.Version != 1 || len(run.History) != historySize || run.Events == nil {
			t.Errorf("got %.200s", body)
		}
	})
}

// A Source that panics ends nothing: it is told, once a second, and goes on.
func TestSourceThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, redact := &source{}, &Redactor{}
		redact.Add(secret)
		h := NewHub(redact)
		s, err := New(Config{Hub: h, Source: src, Redact: redact})
		if err != nil {
			t.Fatal(err)
		}
		src.panics.Store(true)
		time.Sleep(3*time.Second + time.Millisecond)
		src.panics.Store(false)
		time.Sleep(2 * time.Second)
		s.Close()
		if got := s.Stats().Panics; got != 3 {
			t.Errorf("panics: got %d, want 3", got)
		}
		var told uint64
		for _, e := range h.Kept() {
			told += e.Count
			if e.Kind != KindFault || !strings.Contains(e.Error, "no status: …") {
				t.Errorf("got %+v", e)
			}
		}
		if told != 3 {
			t.Errorf("told of %d, want 3", told)
		}
		time.Sleep(2 * time.Second) // the last timer
	})
}

// A stream on which nothing happens, since the Source hangs, is kept alive.
func TestStreamHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{hang: make(chan struct{})}
		s, err := New(Config{Hub: NewHub(nil), Source: src})
		if err != nil {
			t.Fatal(err)
		}
		src.hangs.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		out := &sink{header: http.Header{}}
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events", http.NoBody)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Handler().ServeHTTP(out, r)
		}()
		time.Sleep(40 * time.Second)
		cancel()
		<-done
		close(src.hang)
		s.Close()
		if got := strings.Count(out.text.String(), ": still here"); got != 2 {
			t.Errorf("got %d heartbeats in 40 s, want 2: %s", got, &out.text)
		}
	})
}

// A sink is a response that is kept.
type sink struct {
	header  http.Header
	text    strings.Builder
	holds   atomic.Bool // writes wait for release
	release chan struct{}
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Write(p []byte) (int, error) {
	if s.holds.Load() {
		<-s.release
	}
	return s.text.Write(p)
}
