package httpbreaker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/breaker/httpbreaker"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	guarded, err := httpbreaker.New(httpbreaker.Config{})
	if err != nil {
		fmt.Println(err) // every fault of the Config
		return
	}
	client := &http.Client{Transport: guarded} // one for the process
	for range 6 {
		resp, err := client.Get(server.URL)
		if err != nil {
			fmt.Println("refused:", errors.Is(err, breaker.ErrOpen))
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// 503
	// 503
	// 503
	// 503
	// 503
	// refused: true
}

// inMemory stands for a server.
type inMemory string

func (body inMemory) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(body))), Request: req}, nil
}

// must is for examples only: a program handles the error.
func must(t *httpbreaker.Transport, err error) *httpbreaker.Transport {
	if err != nil {
		panic(err)
	}
	return t
}

func ExampleNew() {
	_, err := httpbreaker.New(httpbreaker.Config{
		Base:           http.DefaultTransport,
		ConnectTimeout: time.Second,
		MaxKeys:        -1,
	})
	fmt.Println(err)
	// Output:
	// httpbreaker: MaxKeys is -1: use 1 to 1000000, or 0 for 10000
	// httpbreaker: ConnectTimeout is 1s: Base dials by itself; set it there and leave this 0
}

// A host with one address only: a refused connection proves that it is down. And one whose
// status 500 means that it is ill.
func ExampleConfig_classify() {
	t := must(httpbreaker.New(httpbreaker.Config{
		Breaker: breaker.Config{Classify: func(err error) breaker.Outcome {
			if errors.Is(err, syscall.ECONNREFUSED) {
				return breaker.Fatal
			}
			return breaker.Failure
		}},
		Classify: func(resp *http.Response) breaker.Outcome {
			if resp.StatusCode == http.StatusInternalServerError {
				return breaker.Failure
			}
			return httpbreaker.Outcome(resp.StatusCode)
		},
	}))
	_, err := (&http.Client{Transport: t}).Get("http://127.0.0.1:1/") //nolint:bodyclose // nobody answers
	fmt.Println(err != nil, t.Breaker("127.0.0.1:1").State())
	// Output: true open
}

// A stored answer in place of a refusal.
func ExampleConfig_fallback() {
	t := must(httpbreaker.New(httpbreaker.Config{
		Base: inMemory("fresh"),
		Fallback: func(_ *http.Request, err error) (*http.Response, error) {
			if !errors.Is(err, breaker.ErrOpen) {
				return nil, nil // the error stands
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("stored"))}, nil
		},
	}))
	if err := t.Breaker("api.test:443").Force(breaker.ForcedOpen, "maintenance"); err != nil {
		fmt.Println(err)
	}
	resp, err := (&http.Client{Transport: t}).Get("https://api.test/price")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output: stored <nil>
}

func ExampleWithCallTimeout() {
	t := must(httpbreaker.New(httpbreaker.Config{Base: inMemory("done")}))
	ctx := httpbreaker.WithCallTimeout(context.Background(), time.Minute) // an upload
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://api.test/backup", strings.NewReader("…"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 200
}

func ExampleHost() {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://user:secret@API.test/x", http.NoBody)
	fmt.Println(httpbreaker.Host(req), err)
	// Output: api.test:443 <nil>
}

func ExampleOutcome() {
	fmt.Println(httpbreaker.Outcome(404), httpbreaker.Outcome(503))
	// Output: success failure
}
