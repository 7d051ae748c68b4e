// Package httpread tells HTTP clients how fresh the answers of a read path are, and when
// to come back if there was none (REQ-D6, REQ-D7).
//
//	mux.Handle("GET /products/{id}", httpread.Handler(func(w http.ResponseWriter, req *http.Request) {
//		res, err := readpath.Get(req.Context(), router, readpath.Call{Endpoint: "product", Key: req.PathValue("id")}, load)
//		if httpread.Refused(w, err) {
//			return // 503 with Retry-After
//		}
//		…
//	}))
//
// # Concurrency
//
// A handler may read from several goroutines. Its response is written by one at a time, as
// http.ResponseWriter asks.
package httpread

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/breakwater-go/breakwater/readpath"
)

// Handler runs next with a context under which readpath.Get tells how fresh its answers are. If
// one of those that came before the response's headers was stale, these say so:
//
//	X-Data-Freshness: stale
//	Warning: 110 - "Response is stale"
//	Age: 17
//
// Age is in whole seconds, rounded up, of the oldest one. Unverified answers get
// "X-Data-Freshness: unverified", unless one is stale. None of these headers is set otherwise.
func Handler(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		f := new(readpath.Freshness)
		tw := &writer{ResponseWriter: w, freshness: f}
		next(tw, req.WithContext(readpath.WithFreshness(req.Context(), f)))
		tw.tell() // of a handler that wrote nothing: the server sends its headers after it
	})
}

// writer sets the headers before they are sent.
type writer struct {
	http.ResponseWriter

	freshness *readpath.Freshness
	told      bool
}

// WriteHeader sets the headers of freshness, unless the status is informational.
func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.tell()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sets the headers of freshness before the first byte.
func (w *writer) Write(p []byte) (int, error) {
	w.tell()
	return w.ResponseWriter.Write(p)
}

// Flush sends the headers, and what was written.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController.
func (w *writer) FlushError() error {
	w.tell()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController: deadlines, Hijack, full duplex.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) tell() {
	if w.told {
		return
	}
	w.told = true
	h := w.Header()
	switch stale, unverified, age, _ := w.freshness.Worst(); {
	case stale:
		h.Set("X-Data-Freshness", "stale")
		h.Set("Warning", `110 - "Response is stale"`)
		h.Set("Age", seconds(age))
	case unverified:
		h.Set("X-Data-Freshness", "unverified")
	}
}

// Refused answers an error that is a refusal of the read path: with status 503 and a
// Retry-After in whole seconds, rounded up. It reports whether it did; any other error, and nil, is the handler's.
func Refused(w http.ResponseWriter, err error) bool {
	refused, ok := errors.AsType[*readpath.RefusedError](err)
	if !ok {
		return false
	}
	w.Header().Set("Retry-After", seconds(refused.RetryAfter()))
	http.Error(w, "no answer that is fresh enough; try again later", http.StatusServiceUnavailable)
	return true
}

func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
