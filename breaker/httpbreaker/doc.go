// Package httpbreaker guards the requests of an HTTP client: an
// [http.RoundTripper] with one circuit breaker for each host, or for each key
// that its user chooses.
//
//	guarded, err := httpbreaker.New(httpbreaker.Config{})
//	if err != nil {
//		return err // every fault of the Config
//	}
//	client := &http.Client{Transport: guarded} // one for the process
//
// A request whose breaker is open is refused at once, and its error matches
// [breaker.ErrOpen]. The breakers know nothing of each other: a redirect to
// another host asks that host's breaker. Nothing is ever sent a second time.
//
// # What counts against a host
//
// Failures are transport errors, timeouts of this package, and the statuses 502,
// 503 and 504 (REQ-B9); every other status says that the host answers, and is
// a success: see [Outcome] and [Config.Classify]. A refused connection is a
// failure like any other, since a host may have many addresses; whoever has only
// one can make it Fatal in the breaker's own Classify, which is asked
// about transport errors.
//
// These count for nothing: the caller's own cancellation; its own deadline, unless the call had
// lasted at least [Config.SlowCall] by then; a request that cannot be sent as it is
// (a line break in a header or in the URL); a request body that its caller's reader did not
// deliver, or not in the length that the request says.
//
// A good status is only half of an answer. With a [Config.StallTimeout], as by
// default, a response counts when its body ends: at EOF or at an early Close as a
// success, and as a failure if it breaks off or stalls. One that still delivers that
// long after its headers counts as a success then, so that a long stream does
// not hold up a recovery. Without a StallTimeout, for an upgraded
// connection (101), and for any other outcome than a success the headers decide.
//
// A latency rule of the breaker times a call until its headers: neither a large download nor a
// caller who reads slowly makes a host slow.
//
// A Retry-After with a 429 or 503, in seconds or as a date, opens the breaker for that
// time, at least Open.Base and at most Open.Max of its Config.
//
// # Timeouts
//
// A connection attempt ends after [Config.ConnectTimeout] and a call, up to and including
// the response's headers, after [Config.CallTimeout] (see [WithCallTimeout] for
// uploads and long polls). A read of the body that gets no byte for
// [Config.StallTimeout] fails. The error matches [ErrTimeout]. How long a body may take
// in all is for the caller's own deadline to say.
//
// The context of a request lives until its body was read to its end or closed; then nothing
// of the request is left, no goroutine and no timer. A body that is neither leaves, as with
// net/http itself, its connection, and here its context too. The breaker takes no harm: a
// call that never ends counts for nothing, and a probe loses its slot after Probe.Lease. Keep
// that lease above CallTimeout and two times StallTimeout, as it is by default: the
// longest that a probe can take to count.
//
// # Concurrency
//
// All methods of a [Transport] may be called at any time from any goroutine. The body
// of a response is for one goroutine at a time, but for Close, which may be called
// during a Read. The functions of [Config] run concurrently, on the goroutine of
// the request, with no lock held, and may use the Transport. A panic in Classify
// is reported as a [breaker.Fault] and the call counts as a failure; one in Key is told to
// Observer.OnFault and the request uses [Host] (REQ-B18). One in Base or Fallback is the
// caller's, and one in Base a failure too (REQ-B10).
package httpbreaker
