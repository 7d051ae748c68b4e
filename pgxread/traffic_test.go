package pgxread_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// slack multiplies the limits of time that the sequences give, where real servers are to
// keep them: on two processors that other programs use too, samplers and servers come several
// intervals late. The limits themselves are checked on scripts, in package replica.
const slack = 4

// within checks a limit of time with slack.
func within(t *testing.T, what string, took, limit time.Duration) {
	t.Helper()
	t.Logf("%s after %v, limit %v", what, took.Round(time.Millisecond), limit)
	if took > slack*limit {
		t.Errorf("%s after %v, want within %d times %v", what, took, slack, limit)
	}
}

// poll is the longest interval between two samples of a replica.
func poll(s replica.Settings) time.Duration { return s.Calm * 11 / 10 }

// conns sets the size of each replica's pool, and so its cap of reads in flight.
func conns(n int) func(*pgxread.Config) {
	return func(c *pgxread.Config) {
		for i := range c.Replicas {
			c.Replicas[i].DSN += fmt.Sprintf("&pool_max_conns=%d", n)
		}
	}
}

// read is one read that has ended.
type read struct {
	begun, ended time.Time
	info         pgxread.ReadInfo
	err          error
	dialled      map[string]int // by node, for this read
}

// dials counts the dials for one read, by node.
type dials struct {
	sync.Mutex

	at map[string]int
}

type dialsKey struct{}

// dialledFor notes a dial for the read whose context ctx is, if it is one of reading.
func dialledFor(ctx context.Context, node string) {
	if d, ok := ctx.Value(dialsKey{}).(*dials); ok {
		d.Lock()
		defer d.Unlock()
		d.at[node]++
	}
}

func (w *watched) readOnce(ctx context.Context) read {
	d := &dials{at: map[string]int{}}
	r := read{begun: time.Now()}
	r.info, r.err = w.port(context.WithValue(ctx, dialsKey{}, d), replica.Requirement{})
	r.ended = time.Now()
	d.Lock()
	defer d.Unlock()
	r.dialled = maps.Clone(d.at)
	return r
}

// reading has each of n readers read once every pace until stop is called, which returns
// all of their reads. The first ones begin at the same time.
func (w *watched) reading(t *testing.T, n int, pace time.Duration) (stop func() []read) {
	t.Helper()
	var readers sync.WaitGroup
	var over atomic.Bool
	reads := make([][]read, n)
	for i := range n {
		readers.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for !over.Load() {
				reads[i] = append(reads[i], w.readOnce(context.Background()))
				<-tick.C
			}
		})
	}
	wait := sync.OnceFunc(func() { over.Store(true); readers.Wait() })
	t.Cleanup(wait)
	return func() []read {
		wait()
		var all []read
		for _, of := range reads {
			all = append(all, of...)
		}
		if i := slices.IndexFunc(all, func(r read) bool { return r.err != nil }); i >= 0 {
			t.Fatalf("a read failed: %v", all[i].err)
		}
		return all
	}
}

// between returns the reads that began and ended in that time.
func between(reads []read, from, to time.Time) []read {
	return of(reads, func(r read) bool { return r.begun.After(from) && r.ended.Before(to) })
}

// on returns the reads that node answered.
func on(reads []read, node string) []read {
	return of(reads, func(r read) bool { return r.info.Node == node })
}

// leftAlone checks that none of the reads was answered by node, was tried in vain
// anywhere, or dialled node.
func leftAlone(t *testing.T, node string, reads []read) {
	t.Helper()
	if len(reads) == 0 {
		t.Errorf("no reads while %s was out: nothing is shown", node)
	}
	wrong := of(reads, func(r read) bool { return r.info.Node == node || r.info.Attempts != 1 || r.dialled[node] != 0 })
	if len(wrong) != 0 {
		t.Errorf("%d of %d reads while %s was out went there; the first on %s, %d attempts, %d dials to %[3]s; want one attempt elsewhere, 0 dials",
			len(wrong), len(reads), node, wrong[0].info.Node, wrong[0].info.Attempts, wrong[0].dialled[node])
	}
}

// statements are the ways to run one statement as a read, each to its end.
var statements = map[string]func(ctx context.Context, r *pgxread.Reader, sql string) error{
	"Exec": func(ctx context.Context, r *pgxread.Reader, sql string) error {
		_, err := r.Exec(ctx, sql)
		return err
	},
	"Query": func(ctx context.Context, r *pgxread.Reader, sql string) error {
		rows, err := r.Query(ctx, sql)
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	},
	"QueryRow": func(ctx context.Context, r *pgxread.Reader, sql string) error {
		var n int
		return r.QueryRow(ctx, sql).Scan(&n)
	},
	"SendBatch": func(ctx context.Context, r *pgxread.Reader, sql string) error {
		b := &pgx.Batch{}
		b.Queue(sql)
		return r.SendBatch(ctx, b).Close()
	},
	"transaction": func(ctx context.Context, r *pgxread.Reader, sql string) error {
		tx, err := r.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		_, err = tx.Exec(ctx, sql)
		return err
	},
}
