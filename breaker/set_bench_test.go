package breaker

import (
	"strconv"
	"sync/atomic"
	"testing"
)

func benchSet[K comparable](b *testing.B, c SetConfig[K]) *Set[K] {
	b.Helper()
	s, err := NewSet(c)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func textKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "tenant-" + strconv.Itoa(i)
	}
	return keys
}

// BenchmarkKeyed is a call by key. The one breaker, without a set, is its floor.
func BenchmarkKeyed(b *testing.B) {
	b.Run("op=one", func(b *testing.B) { benchAllowDone(b, Config{}) })
	for _, n := range []int{1, 1_000, 100_000} {
		name := "/keys=" + strconv.Itoa(n)
		b.Run("op=get/key=string"+name, func(b *testing.B) { benchGet(b, textKeys(n)) })
		b.Run("op=get_allow_done/key=string"+name, func(b *testing.B) { benchKeyed(b, textKeys(n)) })
	}
	b.Run("op=get_allow_done/key=int/keys=1000", func(b *testing.B) {
		keys := make([]int, 1000)
		for i := range keys {
			keys[i] = 1_000_003 * i
		}
		benchKeyed(b, keys)
	})
	b.Run("op=parallel/key=string/keys=1000", func(b *testing.B) {
		b.ReportAllocs()
		keys := textKeys(1000)
		s := benchSet(b, SetConfig[string]{})
		var seed atomic.Uint64
		b.RunParallel(func(pb *testing.PB) {
			for i := 7 * seed.Add(1); pb.Next(); i++ {
				if !run(s.Get(keys[i%1000]), nil) {
					b.Error("refused")
				}
			}
		})
	})
	b.Run("op=new", func(b *testing.B) { // a stream of keys that come once
		b.ReportAllocs()
		s := benchSet(b, SetConfig[int]{})
		for i := 0; b.Loop(); i++ {
			s.Get(i)
		}
	})
}

func benchGet[K comparable](b *testing.B, keys []K) {
	b.Helper()
	b.ReportAllocs()
	s := benchSet(b, SetConfig[K]{Max: 100_000})
	for _, k := range keys {
		s.Get(k)
	}
	for i := 0; b.Loop(); i++ {
		if s.Get(keys[i%len(keys)]) == nil {
			b.Fatal("no breaker")
		}
	}
}

func benchKeyed[K comparable](b *testing.B, keys []K) {
	b.Helper()
	b.ReportAllocs()
	s := benchSet(b, SetConfig[K]{Max: 100_000})
	for _, k := range keys {
		s.Get(k)
	}
	for i := 0; b.Loop(); i++ {
		p, err := s.Get(keys[i%len(keys)]).Allow()
		if err != nil {
			b.Fatal(err)
		}
		p.Done(nil)
	}
}
