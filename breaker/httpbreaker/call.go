package httpbreaker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/httpwire"
)

// A call is one admitted request from its start to the end of its response's body.
type call struct {
	config  *Config
	req     *http.Request // the caller's
	key     string
	breaker *breaker.Breaker
	permit  breaker.Permit // belongs to who set settled
	state   breaker.State  // in which it was admitted, where OnEnd wants it
	status  int            // of the response, 0 before its headers
	begun   time.Time
	upload  *upload            // nil: nothing to watch
	cancel  context.CancelFunc // of the context that Base sees; called once nothing is left to read

	settled atomic.Bool                  // false to true once: the outcome was reported
	expired atomic.Pointer[TimeoutError] // nil to the first limit that was passed
}

func newCall(t *Transport, req *http.Request, key string, b *breaker.Breaker, p breaker.Permit) *call {
	c := &call{
		config: &t.config, req: req, key: key, breaker: b, permit: p,
		begun: time.Now(), upload: watchUpload(req),
	}
	if c.config.OnEnd != nil {
		c.state = b.State()
	}
	return c
}

// send asks Base. However it ends, the outcome is reported, or a body is left that will report it.
func (c *call) send() (resp *http.Response, err error) {
	ctx, cancel := context.WithCancel(c.req.Context())
	c.cancel = cancel
	returned := false
	defer func() {
		if !returned { // REQ-B10
			c.settle(breaker.Failure, errUnwound)
			cancel()
		}
	}()
	resp, err = c.headers(ctx)
	if err == nil {
		c.answered(resp)
	} else {
		err = c.failed(err)
	}
	returned = true
	return resp, err
}

// headers asks Base, within the call timeout.
func (c *call) headers(ctx context.Context) (*http.Response, error) {
	limit := &TimeoutError{Key: c.key, Limit: callTimeout(ctx, c.config.CallTimeout)}
	stop := c.within(limit)
	defer stop()
	keep, answered := c.upload.closeWith(ctx), false
	defer func() {
		if !answered || c.upload.isOver() { // else it goes on beside the response, until that ends
			keep()
		}
	}()
	resp, err := c.config.Base.RoundTrip(c.outgoing(ctx))
	if err != nil {
		return nil, err
	}
	if resp == nil {
		return nil, errNoResponse
	}
	complete(resp, c.req)
	if !stop() { // the context is dead or about to be, and so is the body
		c.expire(limit)
		_ = resp.Body.Close() // the timeout is what is told
		return nil, limit
	}
	answered = true
	return resp, nil
}

// outgoing is the request as Base gets it.
func (c *call) outgoing(ctx context.Context) *http.Request {
	req := c.req.WithContext(ctx)
	if c.upload != nil {
		req.Body = c.upload
	}
	return req
}

// within ends the call once limit has passed, unless stop was called before, which tells.
func (c *call) within(limit *TimeoutError) (stop func() bool) {
	if limit.Limit < 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(limit.Limit, func() { c.expire(limit) }).Stop
}

func (c *call) expire(limit *TimeoutError) {
	c.expired.CompareAndSwap(nil, limit)
	c.cancel()
}

// failed ends a call in whose sending or body err came up, and returns what its caller is told.
func (c *call) failed(err error) error {
	defer c.cancel()
	limit := c.expired.Load()
	if limit != nil {
		err = limit
	} else if over := c.req.Context().Err(); over != nil && c.upload.starved() {
		err = over // not that the upload was closed then, which may come first
	}
	outcome, ended := c.callersEnd()
	switch {
	case c.callersFault():
		c.settle(breaker.Ignored, err)
	case limit != nil:
		c.settle(breaker.Failure, err)
	case ended:
		c.settle(outcome, err)
	default:
		c.settleBy(err)
	}
	return err
}

// callersFault reports whether the caller kept the request from being sent.
func (c *call) callersFault() bool {
	return c.upload.broke() || c.expired.Load() != nil && c.upload.starved() || !sendable(c.req)
}

// callersEnd tells whether the caller has ended the call, and what that says about the host (REQ-B9).
func (c *call) callersEnd() (o breaker.Outcome, ended bool) {
	ctx := c.req.Context()
	deadline, timed := ctx.Deadline()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return breaker.Ignored, true
	case timed && !time.Now().Before(deadline):
		return c.atDeadline(), true
	case ctx.Err() != nil, isClosed(c.req.Cancel): //nolint:staticcheck // http.Client still sets it
		return breaker.Ignored, true
	default:
		return breaker.Success, false
	}
}

func (c *call) atDeadline() breaker.Outcome {
	if time.Since(c.begun) < c.config.SlowCall || c.upload.starved() {
		return breaker.Ignored
	}
	return breaker.Failure
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// settle reports the outcome, the first time that it is called.
func (c *call) settle(o breaker.Outcome, err error) {
	if c.settled.CompareAndSwap(false, true) {
		c.report(o, err)
	}
}

// settleBy is settle for an error that the breaker classifies.
func (c *call) settleBy(err error) {
	if c.settled.CompareAndSwap(false, true) {
		o := breaker.Failure // also if Classify ends the goroutine
		defer func() { c.report(o, err) }()
		o = c.breaker.Classify(err)
	}
}

// report tells the breaker, and OnEnd. It is called once.
func (c *call) report(o breaker.Outcome, err error) {
	if c.config.OnEnd == nil {
		c.permit.DoneAs(o, err)
		return
	}
	e := End{Breaker: c.breaker, Admitted: true, State: c.state, Outcome: o, Status: c.status, Err: err, From: c.breaker.State()}
	c.permit.DoneAs(o, err)
	e.To = c.breaker.State()
	tellEnd(c.config, c.req, e)
}

// answered takes the headers of a response in.
func (c *call) answered(resp *http.Response) {
	c.permit.Answered()
	c.status = resp.StatusCode
	o := c.classify(resp)
	if o != breaker.Success {
		c.settle(o, statusError(resp.StatusCode))
	}
	if wait := httpwire.RetryAfter(resp); wait > 0 {
		c.breaker.TripFor(wait, breaker.Reason{
			Rule: breaker.RuleRetryAfter, Detail: fmt.Sprintf("%v, after status %d", wait, resp.StatusCode),
		})
	}
	c.attach(resp)
}

// classify asks Config.Classify. Its panic counts as a failure and is reported (REQ-B18).
func (c *call) classify(resp *http.Response) (o breaker.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = breaker.Failure
			c.settleBy(&panicError{v})
		}
	}()
	return c.config.Classify(resp)
}
