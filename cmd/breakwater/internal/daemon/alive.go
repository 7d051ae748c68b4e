package daemon

import (
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// leastSilence is how long a sampler may say nothing, at least, before it counts as frozen.
const leastSilence = 10 * time.Second

// A pulse remembers when each node's sampler last said something, good or bad: the watchdog's question is whether it works, not whether its node does.
type pulse struct {
	mu   sync.Mutex
	last map[string]time.Time // by node
}

func newPulse() *pulse { return &pulse{last: map[string]time.Time{}} }

// heard is for replica.Observer.OnSample.
func (p *pulse) heard(s replica.Sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[s.Node] = s.At
}

// silent is the sampler that has said nothing for longest and for longer than it may; "" if each works.
func (p *pulse) silent(now time.Time, nodes []string, may time.Duration) (node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.last {
		if !slices.Contains(nodes, name) {
			delete(p.last, name) // it was removed
		}
	}
	longest := may
	for _, name := range nodes {
		last, ok := p.last[name]
		if !ok {
			p.last[name] = now // it is new, or the process is
			continue
		}
		if since := now.Sub(last); since > longest {
			node, longest = name, since
		}
	}
	return node
}

// maySilence is how long a sampler with these settings may say nothing.
func maySilence(s replica.Settings) time.Duration {
	return max(leastSilence, 4*(s.Calm+s.SampleTimeout))
}
