package httpbreaker

import (
	"strings"
	"sync"

	"github.com/breakwater-go/breakwater/breaker"
)

// keyed is where a Transport has its breakers from.
type keyed interface {
	Get(key string) *breaker.Breaker
}

// breakers is a bounded map of breakers with the same Config. When it is full, a
// closed one makes room, or if there is none any other.
type breakers struct {
	config breaker.Config // immutable
	limit  int            // immutable
	mu     struct {
		sync.Mutex
		byKey map[string]*breaker.Breaker
	}
}

// newBreakers returns the faults of c, if it has some.
func newBreakers(c breaker.Config, limit int) (keyed, error) {
	if _, err := breaker.New(c); err != nil {
		return nil, err
	}
	s := &breakers{config: c, limit: limit}
	s.mu.byKey = map[string]*breaker.Breaker{}
	return s, nil
}

// Get returns the breaker of key, which it makes if there is none.
func (s *breakers) Get(key string) *breaker.Breaker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.mu.byKey[key]; b != nil {
		return b
	}
	s.makeRoomLocked()
	c := s.config
	c.Name = strings.TrimPrefix(c.Name+"/"+key, "/")
	b, _ := breaker.New(c) // newBreakers has checked it
	s.mu.byKey[key] = b
	return b
}

func (s *breakers) makeRoomLocked() {
	if len(s.mu.byKey) < s.limit {
		return
	}
	var victim string
	for key, b := range s.mu.byKey {
		victim = key
		if b.State() == breaker.Closed {
			break
		}
	}
	delete(s.mu.byKey, victim)
}
