package boltletters

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/breakwater-go/breakwater/emit"
)

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.Context(), Config{Dir: b.TempDir(), IdleAfter: -1, Check: CheckFile})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func kibLetter(i int) emit.Letter {
	return emit.Letter{
		Consumer: "a", Priority: 1, Reason: emit.ReasonOpen, StoredAt: time.Unix(int64(i), 0),
		Trigger: emit.Trigger{ID: "0123456789abcdef0123456789abcdef", Type: "order.paid", Source: "shop", Time: time.Unix(int64(i), 0), Data: make([]byte, 1024)},
	}
}

// BenchmarkAppend is 64 emitters that wait for fsync, beside bbolt alone with transactions of the same sizes: records of the same
// length, one bucket, keys in order.
func BenchmarkAppend(b *testing.B) {
	const emitters = 64
	batch := emitters
	b.Run("store", func(b *testing.B) {
		s := benchStore(b)
		before := s.Stats()
		var all sync.WaitGroup
		next := make(chan int)
		for range emitters {
			all.Go(func() {
				for i := range next {
					if _, err := s.Append(context.Background(), kibLetter(i)); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := 0; b.Loop(); i++ {
			next <- i
		}
		close(next)
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "letters/s")
		if after := s.Stats(); after.Commits > before.Commits {
			batch = max(1, int((after.Committed-before.Committed)/(after.Commits-before.Commits)))
		}
		b.ReportMetric(float64(batch), "letters/commit")
	})
	b.Run("bbolt", func(b *testing.B) {
		db, err := bbolt.Open(filepath.Join(b.TempDir(), "bare"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		l := kibLetter(1)
		record := encode(&l)
		seq := uint64(0)
		for b.Loop() {
			if seq++; seq%uint64(batch) != 0 { //nolint:gosec // small
				continue
			}
			err := db.Update(func(tx *bbolt.Tx) error {
				bucket, err := tx.CreateBucketIfNotExists([]byte("letters"))
				for i := uint64(batch); i > 0 && err == nil; i-- { //nolint:gosec // small
					err = bucket.Put(seqKey(seq-i+1), record)
				}
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "letters/s")
	})
}

func benchFill(b *testing.B, s *Store, n int) {
	b.Helper()
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for i := g; i < n; i += 64 {
				if _, err := s.Append(context.Background(), kibLetter(i)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkDrain claims and delivers by the hundred, two fsyncs for each hundred.
func BenchmarkDrain(b *testing.B) {
	const n = 20_000
	drained := 0
	var took time.Duration
	for b.Loop() {
		b.StopTimer()
		s := benchStore(b)
		benchFill(b, s, n)
		b.StartTimer()
		begun := time.Now()
		for {
			letters, err := s.Claim(b.Context(), "a", emit.Filter{}, 100)
			if err != nil {
				b.Fatal(err)
			}
			if len(letters) == 0 {
				break
			}
			results := make([]emit.Settlement, len(letters))
			for i := range letters {
				results[i] = emit.Settlement{Seq: letters[i].Seq, Delivered: true}
			}
			if err := s.Settle(b.Context(), "a", results); err != nil {
				b.Fatal(err)
			}
			drained += len(letters)
		}
		took += time.Since(begun)
	}
	b.ReportMetric(float64(drained)/took.Seconds(), "letters/s")
}

// BenchmarkReopen opens a store with a backlog: the check in a child process, and the rest.
func BenchmarkReopen(b *testing.B) {
	for _, n := range []int{0, 10_000, 100_000} {
		s := benchStore(b)
		benchFill(b, s, n)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		for _, check := range []string{"child", "none"} {
			b.Run(fmt.Sprint("letters=", strconv.Itoa(n), "/check=", check), func(b *testing.B) {
				c := s.config
				c.Check = CheckInChild
				if check == "none" {
					c.Check = func(context.Context, string) error { return nil }
				}
				for b.Loop() {
					s, err := Open(b.Context(), c)
					if err != nil {
						b.Fatal(err)
					}
					if err := s.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
