package httpbreaker

import (
	"io"
	"net/http"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
)

// BenchmarkRoundTrip is one call with an answer from memory: what is above bare is the price.
func BenchmarkRoundTrip(b *testing.B) {
	guarded, err := New(Config{Base: answer(200, "x")})
	if err != nil {
		b.Fatal(err)
	}
	refusing, _ := New(Config{Base: answer(200, "x")})
	refusing.Breaker("api.test:80").Force(breaker.ForcedOpen, "benchmark")
	for _, bc := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", answer(200, "x")},
		{"guarded", guarded},
		{"refused", refusing},
	} {
		call := func() {
			req, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, anyURL, http.NoBody)
			if resp, err := bc.rt.RoundTrip(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		b.Run("serial/case="+bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
		b.Run("parallel/case="+bc.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call()
				}
			})
		})
	}
}
