package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// senders is how many emit at once.
const senders = 20

// A load emits at a steady rate, each event under an ID of its own.
type load struct {
	url    string
	perSec int
	client *http.Client

	mu      sync.Mutex
	acked   []string
	answers map[int]int // by status; 0: no answer
	took    []float64   // ms
}

func newLoad(url string, perSec int) *load {
	return &load{
		url: url, perSec: perSec, answers: map[int]int{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}, Timeout: 10 * time.Second},
	}
}

// run emits until ctx ends, and waits for the answers.
func (l *load) run(ctx context.Context) {
	due := make(chan int, senders)
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for n := range due {
				l.emit(fmt.Sprintf("soak-%d", n), n)
			}
		})
	}
	begin, n := time.Now(), 0
	for pause(ctx, 10*time.Millisecond) {
		for want := int(time.Since(begin).Seconds() * float64(l.perSec)); n < want; n++ {
			due <- n
		}
	}
	close(due)
	all.Wait()
	l.client.CloseIdleConnections()
}

var priorities = []string{"compliance", "normal", "normal", "idle-ping"}

func (l *load) emit(id string, n int) {
	body := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"soak","type":"order.paid","priority":%q,"partitionkey":"k%d","data":{"n":%d}}`,
		id, priorities[n%len(priorities)], n%100, n)
	begin := time.Now()
	code := 0
	resp, err := l.client.Post(l.url+"/api/v1/emit", "application/cloudevents+json", strings.NewReader(body)) //nolint:noctx // the client has a timeout
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		code = resp.StatusCode
	}
	took := float64(time.Since(begin)) / float64(time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[code]++
	l.took = append(l.took, took)
	if code == http.StatusAccepted {
		l.acked = append(l.acked, id)
	}
}

// quantile is that of sorted values; 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func median(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return quantile(values, 0.5)
}
