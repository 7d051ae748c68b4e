package gateway

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// A kind is how events stand in a request.
type kind int

const (
	unknown kind = iota
	structured
	binary
	batch
)

// known is what a sender is told whose kind is unknown.
const known = "send a CloudEvent as application/cloudevents+json, or with its attributes as ce- headers, or a batch as application/cloudevents-batch+json; " +
	"JSON in UTF-8, and no Content-Encoding"

func kindOf(h http.Header) kind {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	isEvent := strings.HasPrefix(media, "application/cloudevents")
	charset := params["charset"]
	switch {
	case h.Get("Content-Encoding") != "" && !strings.EqualFold(h.Get("Content-Encoding"), "identity"):
		return unknown
	case isEvent && (err != nil || charset != "" && !strings.EqualFold(charset, "utf-8")):
		return unknown
	case media == "application/cloudevents+json":
		return structured
	case media == "application/cloudevents-batch+json":
		return batch
	case !isEvent && hasAttributes(h):
		return binary
	}
	return unknown
}

func hasAttributes(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(strings.ToLower(name), "ce-") {
			return true
		}
	}
	return false
}

// leastRequest is what a request counts at least: its connection with its buffers, its headers, its goroutines and its answer.
const leastRequest = 32 << 10

// memory is what bodies take at once.
type memory struct {
	most int64
	mu   struct {
		sync.Mutex
		taken int64
	}
}

// take counts n bytes in, unless that would exceed the most.
func (m *memory) take(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.taken+n > m.most {
		return false
	}
	m.mu.taken += n
	return true
}

func (m *memory) give(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.taken -= n
}

// read returns the body, and done to call once it is in no use any more. Not ok says that the request was answered.
func (g *Gateway) read(w http.ResponseWriter, req *http.Request, limit int64) (body []byte, done func(), ok bool) {
	length := req.ContentLength
	if length > limit {
		g.turnAway(w, req, http.StatusRequestEntityTooLarge, tooLong(limit))
		return nil, nil, false
	}
	if length < 0 {
		length = limit
	}
	n := max(length, leastRequest)
	if !g.memory.take(n) {
		g.turnAway(w, req, http.StatusServiceUnavailable, "too many events are in work: send it again later")
		return nil, nil, false
	}
	body, err := g.receive(w, req, limit)
	if err != nil {
		g.memory.give(n)
		status, text := explain(err)
		if status == http.StatusRequestEntityTooLarge {
			g.turnAway(w, req, status, text)
		} else {
			refuse(w, status, text)
		}
		return nil, nil, false
	}
	return body, func() { g.memory.give(n) }, true
}

// receive reads the body, at most for ReadTimeout.
func (g *Gateway) receive(w http.ResponseWriter, req *http.Request, limit int64) (body []byte, err error) {
	// net/http takes the deadline back at the end of the body; where there is no connection there is nothing to wait for.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.config.ReadTimeout))
	from := http.MaxBytesReader(w, req.Body, limit)
	if req.ContentLength < 0 {
		body, err = io.ReadAll(from)
	} else {
		body = make([]byte, req.ContentLength)
		_, err = io.ReadFull(from, body)
	}
	return body, err
}

// turnAway refuses a request whose body is not wanted. It reads on first, within bounds, so that a sender which writes its whole body before it
// listens is there to hear why. One that asked before it sends (Expect) has sent nothing.
func (g *Gateway) turnAway(w http.ResponseWriter, req *http.Request, status int, text string) {
	if req.Header.Get("Expect") == "" {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.config.ReadTimeout))
		_, _ = io.CopyN(io.Discard, req.Body, g.config.MaxBatchBody)
	}
	refuse(w, status, text)
}

func explain(err error) (status int, text string) {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, tooLong(tooLarge.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return http.StatusRequestTimeout, "the body did not come in time: nothing of it was taken"
	}
	return http.StatusBadRequest, "the body did not come whole: nothing of it was taken"
}

func tooLong(limit int64) string {
	return fmt.Sprintf("the body is over %d bytes: send smaller events, or fewer at a time", limit)
}
