package emit

import (
	"context"
	"sync"
	"sync/atomic"
)

// calls are the deliveries under way, so that a Router that ends can end them.
type calls struct {
	mu struct {
		sync.Mutex
		cancel []context.CancelFunc // nil: free
		free   []int
		ended  bool
	}
	over atomic.Bool // mu.ended
}

func (c *calls) add(cancel context.CancelFunc) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ended {
		cancel()
	}
	if n := len(c.mu.free); n > 0 {
		at := c.mu.free[n-1]
		c.mu.free = c.mu.free[:n-1]
		c.mu.cancel[at] = cancel
		return at
	}
	c.mu.cancel = append(c.mu.cancel, cancel)
	return len(c.mu.cancel) - 1
}

func (c *calls) drop(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.cancel[at] = nil
	c.mu.free = append(c.mu.free, at)
}

// end cancels every call under way and to come.
func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.ended = true
	c.over.Store(true)
	for _, cancel := range c.mu.cancel {
		if cancel != nil {
			cancel()
		}
	}
}

func (c *calls) ended() bool { return c.over.Load() }
