package breaker

import "time"

// A clock is where a breaker takes the time from; tests that run a sequence of
// operations put their own in. since is the monotonic time from a fixed base,
// which is what rules compare (half the price of time.Now); wall is for people.
type clock interface {
	since() time.Duration
	wall() time.Time
	after(d time.Duration, f func()) (stop func() bool)
}

type realClock struct{ base time.Time }

func (c *realClock) since() time.Duration { return time.Since(c.base) }
func (*realClock) wall() time.Time        { return time.Now() }

func (*realClock) after(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}
