package httpbreaker

import (
	"io"
	"net/http"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// attach puts what remains of the call into the response's body. The headers have told all
// where nothing follows, where the connection is the caller's from now on, and where nothing
// limits a stall.
func (c *call) attach(resp *http.Response) {
	b := &body{ReadCloser: resp.Body, call: c, headers: time.Now(), limit: c.config.StallTimeout}
	connection, upgraded := resp.Body.(io.Writer)
	switch {
	case isBodiless(resp):
		_ = b.Close() // nothing is in it
		resp.Body = http.NoBody
		return
	case upgraded:
		b.limit = -1
		resp.Body = &upgradedBody{body: b, Writer: connection}
	default:
		resp.Body = b
	}
	if b.limit < 0 {
		c.settle(breaker.Success, nil)
	}
}

// isBodiless knows responses that need not be read to their end or closed.
func isBodiless(resp *http.Response) bool {
	return resp.Body == http.NoBody || resp.Request.Method == http.MethodHead ||
		resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
}

// A body is a response's body that ends its call. One goroutine reads it; Close may come meanwhile.
type body struct {
	io.ReadCloser
	call    *call
	headers time.Time
	limit   time.Duration // negative: none
	stall   *time.Timer   // runs during a Read only; nil before the first
}

// Read reads on, for at most StallTimeout (REQ-B11).
func (b *body) Read(p []byte) (int, error) {
	b.begin()
	n, err := b.ReadCloser.Read(p)
	b.end()
	switch {
	case err == io.EOF: //nolint:errorlint // io.Reader's contract: EOF itself
		b.call.settle(breaker.Success, nil)
		b.call.cancel()
	case err != nil:
		err = b.call.failed(err)
	case n > 0 && time.Since(b.headers) >= b.limit:
		b.call.settle(breaker.Success, nil)
	}
	return n, err
}

func (b *body) begin() {
	switch {
	case b.limit < 0:
	case b.stall != nil:
		b.stall.Reset(b.limit)
	default:
		limit := &TimeoutError{Key: b.call.key, Body: true, Limit: b.limit}
		b.stall = time.AfterFunc(b.limit, func() { b.call.expire(limit) })
	}
}

func (b *body) end() {
	if b.stall != nil {
		b.stall.Stop() // if it was too late, the next Read tells
	}
}

// Close ends the call. What was not read is the caller's choice, and no fault of the host.
func (b *body) Close() error {
	b.call.settle(breaker.Success, nil)
	defer b.call.cancel()
	return b.ReadCloser.Close()
}

// An upgradedBody is the connection after a 101.
type upgradedBody struct {
	*body
	io.Writer
}
