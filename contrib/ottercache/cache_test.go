package ottercache_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/contrib/ottercache"
	"github.com/breakwater-go/breakwater/readpath"
)

func key(n int) readpath.CacheKey { return readpath.CacheKey{Endpoint: "e", Key: strconv.Itoa(n)} }

func TestGetWhatWasSet(t *testing.T) {
	c, err := ottercache.New(ottercache.Config{MaxEntries: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, ok := c.Get(key(1)); ok {
		t.Error("an empty cache has an answer")
	}
	now := time.Now()
	c.Set(key(1), readpath.Entry{Value: "new", Current: now})
	c.Set(key(1), readpath.Entry{Value: "old", Current: now.Add(-time.Second)}) // a slower reader
	if e, ok := c.Get(key(1)); !ok || e.Value != "new" {
		t.Errorf("got %v, %v; want the newer answer", e, ok)
	}
}

// REQ-D7: of readers who put their answers there at once, the newest one's stays.
func TestNewestOfManyStays(t *testing.T) {
	c, err := ottercache.New(ottercache.Config{MaxEntries: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	const readers = 16
	newest := time.Now()
	for n := range 2000 {
		var all sync.WaitGroup
		for age := range readers {
			all.Go(func() { c.Set(key(n), readpath.Entry{Value: age, Current: newest.Add(-time.Duration(age))}) })
		}
		all.Wait()
		if e, ok := c.Get(key(n)); ok && e.Value != 0 {
			t.Fatalf("key %d: got the answer of age %v, want the newest", n, e.Value)
		}
	}
}

// It stays bounded, from many goroutines at once.
func TestBound(t *testing.T) {
	for name, cfg := range map[string]ottercache.Config{
		"entries": {MaxEntries: 100},
		"weight":  {MaxWeight: 1000, Weigh: func(readpath.CacheKey, readpath.Entry) uint32 { return 10 }},
		"nothing": {MaxWeight: 100, Weigh: func(readpath.CacheKey, readpath.Entry) uint32 { return 0 }}, // counts as 1
	} {
		c, err := ottercache.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := range 5000 {
					c.Set(key(g*5000+i), readpath.Entry{Value: i})
				}
			})
		}
		all.Wait()
		for deadline := time.Now().Add(10 * time.Second); c.Len() > 100 && time.Now().Before(deadline); {
			c.Get(key(0)) // otter evicts in the background
		}
		if got := c.Len(); got > 100 {
			t.Errorf("%s: got %d answers, want at most 100", name, got)
		}
	}
}

func TestFaults(t *testing.T) {
	for want, cfg := range map[string]ottercache.Config{
		"bound the cache":           {},
		"MaxEntries is -1":          {MaxEntries: -1},
		"set it and Weigh together": {MaxWeight: 1},
		"this or MaxWeight, one of": {MaxEntries: 1, MaxWeight: 1, Weigh: func(readpath.CacheKey, readpath.Entry) uint32 { return 1 }},
	} {
		if _, err := ottercache.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// Of readers that end at once the one whose answer is the newest wins.
func TestNewestStays(t *testing.T) {
	const writers, turns = 8, 2000
	c, err := ottercache.New(ottercache.Config{MaxEntries: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	base := time.Now()
	newest := func(turn int) time.Time { return base.Add(time.Duration(turn*writers+writers-1) * time.Millisecond) }
	for turn := range turns {
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				c.Set(key(1), readpath.Entry{Current: base.Add(time.Duration(turn*writers+w) * time.Millisecond)})
			})
		}
		all.Wait()
		if e, ok := c.Get(key(1)); !ok || !e.Current.Equal(newest(turn)) {
			t.Fatalf("turn %d: got %v, %v; want %v", turn, e.Current.Sub(base), ok, newest(turn).Sub(base))
		}
	}
}
