package httpwire

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"7":                              7 * time.Second,
		" 120 ":                          2 * time.Minute,
		"4294967295":                     LongestRetryAfter,
		"99999999999999999999":           0,
		"-1":                             0,
		"+5":                             0,
		"1.5":                            0,
		"soon":                           0,
		"Fri, 02 Jan 2026 03:04:15 GMT":  10 * time.Second,
		"Fri, 02 Jan 2026 03:04:00 GMT":  0,
		"Friday, 02-Jan-26 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 9999 03:04:15 GMT":  LongestRetryAfter,
	} {
		if got := parseRetryAfter(value, now); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

// The date of the response itself is the reference: a host whose clock is wrong says what it means.
func TestRetryAfterComparesTheHostsOwnClock(t *testing.T) {
	resp := &http.Response{StatusCode: 429, Header: http.Header{}}
	resp.Header.Set("Date", "Fri, 02 Jan 1970 03:04:05 GMT")
	resp.Header.Set("Retry-After", "Fri, 02 Jan 1970 03:04:12 GMT")
	if got := RetryAfter(resp); got != 7*time.Second {
		t.Errorf("got %v, want 7s", got)
	}
	resp.StatusCode = 200
	if got := RetryAfter(resp); got != 0 {
		t.Errorf("of a 200: got %v, want 0", got)
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "7", "-1", "1e9", "Fri, 02 Jan 2026 03:04:15 GMT", "4294967296"} {
		f.Add(seed)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		if d := parseRetryAfter(value, now); d < 0 || d > LongestRetryAfter {
			t.Errorf("%q: got %v", value, d)
		}
	})
}

// A host that says no date of its own is judged by our clock.
func TestRetryAfterWithoutADate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp := &http.Response{StatusCode: 503, Header: http.Header{}}
		resp.Header.Set("Retry-After", time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
		if got := RetryAfter(resp); got != 90*time.Second {
			t.Errorf("got %v, want 90s", got)
		}
	})
}
