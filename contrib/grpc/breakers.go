package grpcbreaker

import (
	"sync"

	"github.com/breakwater-go/breakwater/breaker"
)

// newBreakers returns what finds or makes the breaker of a key, and keeps at most limit of them. c was checked.
func newBreakers(limit int, c breaker.Config) func(key string) *breaker.Breaker {
	m := &breakerMap{limit: limit, config: c, all: map[string]*breaker.Breaker{}}
	return m.get
}

// A breakerMap holds one breaker a key.
type breakerMap struct {
	limit  int
	config breaker.Config

	mu  sync.RWMutex
	all map[string]*breaker.Breaker
}

func (m *breakerMap) get(key string) *breaker.Breaker {
	m.mu.RLock()
	b := m.all[key]
	m.mu.RUnlock()
	if b == nil {
		b = m.add(key)
	}
	return b
}

func (m *breakerMap) add(key string) *breaker.Breaker {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.all[key]; b != nil {
		return b
	}
	if len(m.all) >= m.limit {
		delete(m.all, m.spareLocked())
	}
	c := m.config
	c.Name = key
	b, err := breaker.New(c)
	if err != nil {
		panic(err) // New has checked all of it but the name, of which nothing is asked
	}
	m.all[key] = b
	return b
}

// spareLocked is the key of a closed breaker, or of any if none is closed.
func (m *breakerMap) spareLocked() (spare string) {
	for key, b := range m.all {
		spare = key
		if b.State() == breaker.Closed {
			break
		}
	}
	return spare
}
