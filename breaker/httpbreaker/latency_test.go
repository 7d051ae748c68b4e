package httpbreaker

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// A slow reader is no slow host; slow headers are.
func TestLatencyEndsAtTheHeaders(t *testing.T) {
	for name, tc := range map[string]struct {
		headers time.Duration
		want    breaker.State
	}{
		"slow reader":  {0, breaker.Closed},
		"slow headers": {60 * time.Millisecond, breaker.Open},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := answer(200, "body")
				tr := newTransport(t, Config{
					Base: baseFunc(func(req *http.Request) (*http.Response, error) {
						time.Sleep(tc.headers)
						return base.RoundTrip(req)
					}),
					Breaker: breaker.Config{Rules: []breaker.Rule{breaker.SlowCallRate{MinCalls: 4}}, Open: breaker.Backoff{Base: time.Hour, Max: time.Hour}},
				})
				for range 5 {
					resp, err := tr.RoundTrip(newRequest(t, anyURL))
					if err != nil {
						break
					}
					time.Sleep(time.Second)
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if got := tr.Breaker(Host(newRequest(t, anyURL))).State(); got != tc.want {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			})
		})
	}
}
