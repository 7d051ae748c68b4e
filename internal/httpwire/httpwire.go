// Package httpwire is what the HTTP clients of Breakwater share: how they connect, what an answer asks
// for, and what can be sent as a header.
//
// # Concurrency
//
// All functions may be called from any goroutine.
package httpwire

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A dead HTTP/2 connection fails every call on it, and so every probe, until TCP gives it up
// after minutes. Calls that time out do not close it, so it is asked when it is silent.
const (
	pingAfter  = 5 * time.Second
	pingWithin = 2 * time.Second
)

// NewTransport makes a Transport that dials, and again does the TLS handshake, within connect, takes proxies
// from the environment and drops an HTTP/2 connection on which nothing answers any more.
func NewTransport(connect time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connect}).DialContext,
		TLSHandshakeTimeout:   connect,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWithin},
		MaxIdleConns:          100,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

// LongestRetryAfter keeps a number of seconds from overflowing; callers have lower bounds of their own.
const LongestRetryAfter = 365 * 24 * time.Hour

// RetryAfter is how long a response with status 429 or 503 asks to be left alone, 0 if it does not. A date is
// compared with the response's own, so that the hosts' clocks need not agree.
func RetryAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return parseRetryAfter(resp.Header.Get("Retry-After"), now)
}

// parseRetryAfter reads a number of seconds or a date; anything else, and what is
// over already, is 0.
func parseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, LongestRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), LongestRetryAfter)
}

// IsToken reports whether s can be the name of a header, or a method.
func IsToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// IsValue reports whether s can be the value of a header.
func IsValue(s string) bool { return !strings.ContainsFunc(s, isControl) }

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
