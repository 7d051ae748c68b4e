package prombreakwater

// A carry keeps counters from going back: where a part is replaced by another that counts from 0, what the one before had
// counted is added. It is used by one scrape of its source at a time.
type carry struct {
	series map[string]*carried
	seen   map[string]int64 // the newest good sample of each node, as Unix nanoseconds
}

type carried struct {
	owner      any // what counts
	last, base float64
	told       bool // in this scrape
}

func newCarry() *carry { return &carry{series: map[string]*carried{}, seen: map[string]int64{}} }

// count is the value of a counter that never goes back. A counter of one owner only grows, but for what is read a little ahead.
func (c *carry) count(key string, owner any, v float64) float64 {
	s := c.series[key]
	if s == nil {
		s = &carried{owner: owner}
		c.series[key] = s
	}
	if s.owner != owner {
		s.owner, s.base, s.last = owner, s.base+s.last, 0
	}
	s.last, s.told = max(s.last, v), true
	return s.base + s.last
}

const wraps = 1 << 32

// countModulo is count for a counter that begins anew at 2^32.
func (c *carry) countModulo(key string, owner any, v uint32) float64 {
	if s := c.series[key]; s != nil && s.owner == owner && float64(v) < s.last {
		s.base += wraps
		s.last = 0
	}
	return c.count(key, owner, float64(v))
}

// sweep ends a scrape: what was not told is forgotten.
func (c *carry) sweep() {
	for key, s := range c.series {
		if !s.told {
			delete(c.series, key)
		}
		s.told = false
	}
}
