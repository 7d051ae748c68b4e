package consumer

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/internal/cloudevent"
)

// server answers triggers and remembers them.
type server struct {
	forget bool // immutable

	mu struct {
		sync.Mutex
		behaviour Behaviour
		changed   chan struct{} // closed when the behaviour changes
		rng       *rand.Rand
		took      map[string]int // by ID, how often
		order     map[string]int // by key, the highest number that was taken
		taken     int            // where IDs are forgotten
		report    Report
	}
}

// Report is what a consumer saw.
type Report struct {
	Calls      int `json:"calls"`        // requests that came
	Taken      int `json:"taken"`        // IDs
	Duplicates int `json:"duplicates"`   // takes of an ID that was taken before
	OutOfOrder int `json:"out_of_order"` // first takes of an ID after a later one of its key
	// WorstStall is by how much a latency was longer than it was to be, in ms: the machine's share.
	WorstStall float64 `json:"worst_stall_ms"`
	// IDs are those taken; only where they were asked for.
	IDs []string `json:"ids,omitempty"`
}

func newServer(o Options) *server {
	s := &server{forget: o.Forget}
	s.mu.rng = rand.New(rand.NewPCG(o.Seed, 0))
	s.mu.changed = make(chan struct{})
	s.mu.took, s.mu.order = map[string]int{}, map[string]int{}
	return s
}

// maxBody bounds what is read of a trigger.
const maxBody = 1 << 20

// ServeHTTP takes one trigger. What it takes it takes for good, whether or not the caller still waits.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	how, wait, changed := s.arrived()
	t, err := cloudevent.Read(r, maxBody)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case how.Hang:
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case how.Fail:
		http.Error(w, "it fails, as it was told", http.StatusInternalServerError)
		return
	}
	if wait > 0 {
		began := time.Now()
		time.Sleep(wait)
		s.stalled(time.Since(began) - wait)
	}
	s.take(t.ID, t.Key)
	w.WriteHeader(http.StatusNoContent)
	_, _ = io.Copy(io.Discard, r.Body)
}

// arrived draws what becomes of a call.
func (s *server) arrived() (how Behaviour, wait time.Duration, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.report.Calls++
	return s.mu.behaviour, s.mu.behaviour.latency(s.mu.rng), s.mu.changed
}

func (s *server) stalled(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.report.WorstStall = max(s.mu.report.WorstStall, by.Seconds()*1000)
}

// take notes a trigger. The number at the end of an ID tells the order in which they were emitted.
func (s *server) take(id, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forget {
		s.mu.taken++
		return
	}
	s.mu.took[id]++
	if s.mu.took[id] > 1 {
		s.mu.report.Duplicates++
		return
	}
	if key == "" {
		return
	}
	n := numberOf(id)
	if n < s.mu.order[key] {
		s.mu.report.OutOfOrder++
	}
	s.mu.order[key] = max(s.mu.order[key], n)
}

func numberOf(id string) int {
	n, _ := strconv.Atoi(id[strings.LastIndexByte(id, '-')+1:])
	return n
}

// become changes the behaviour, and cuts the calls that hang.
func (s *server) become(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.behaviour = b
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// told is what it saw so far; a stall is told once.
func (s *server) told(ids bool) Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mu.report
	s.mu.report.WorstStall = 0
	r.Taken = len(s.mu.took) + s.mu.taken
	if ids {
		r.IDs = make([]string, 0, len(s.mu.took))
		for id := range s.mu.took {
			r.IDs = append(r.IDs, id)
		}
	}
	return r
}
