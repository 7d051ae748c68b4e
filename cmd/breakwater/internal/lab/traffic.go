package lab

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// writerMode is how the writer commits.
type writerMode int32

const (
	writerOn    writerMode = iota // synchronous_commit=on
	writerAsync                   // synchronous_commit=off
	writerIdle                    // not at all
)

var writerModes = []writerMode{writerOn, writerAsync, writerIdle}

func (m writerMode) String() string {
	return [...]string{"sync", "async", "idle"}[m]
}

const (
	maxInFlight   = 512 // reads; more are skipped and counted
	catchUp       = 4
	timerLate     = 5 * time.Millisecond // what a timer may be late by where nothing stalls
	checkEvery    = 100 * time.Millisecond
	directTimeout = time.Second
	// checkUsable is how long a direct read may take to say something about the
	// moment at which it began: the replica goes on meanwhile.
	checkUsable = 100 * time.Millisecond
)

// write changes how the writer commits.
func (r *run) write(m writerMode) {
	if writerMode(r.mode.Swap(int32(m))) == m {
		return
	}
	r.rec.idle(r.now(), m == writerIdle)
	r.tell(WriterLine{r.head("writer"), m.String()})
}

// Pace calls do so many times a second, which may change, on schedule whatever do takes, until ctx ends; at 0 it
// waits. What fell behind because the machine stalled is made up for at catchUp times the rate
// and not in one burst, which no caller would have sent. A timer may be late by more than an
// interval: what came due meanwhile is sent when it fires. now is a monotonic clock.
func Pace(ctx context.Context, now func() time.Duration, perSecond func() int64, do func(late time.Duration)) {
	for due, last := now(), now(); ctx.Err() == nil; {
		at, rate := now(), perSecond()
		if rate <= 0 {
			_ = Wait(ctx, paused)
			due, last = now(), now()
			continue
		}
		interval := time.Second / time.Duration(rate)
		room := max(1, int(catchUp*min(at-last, timerLate)/interval))
		for last = at; due <= at && room > 0; room-- {
			do(at - due)
			due += interval
		}
		_ = Wait(ctx, max(due-now(), interval/catchUp))
	}
}

// paused is how often a rate of 0 is looked at again.
const paused = 100 * time.Millisecond

// writeLoop commits the rising counter. A value is written again until it is
// acknowledged, so that there is no hole in the truth.
func (r *run) writeLoop(ctx context.Context) {
	n := int64(1)
	Pace(ctx, r.now, r.writes.Load, func(time.Duration) {
		mode := writerMode(r.mode.Load())
		if mode == writerIdle {
			return
		}
		sync := "on"
		if mode == writerAsync {
			sync = "off"
		}
		begin := r.now()
		_, err := r.db.Exec(ctx, truth.WriteSQL, n, sync)
		end := r.now()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			r.acks.Add(n, end)
			r.committed(ctx, n)
			n++
		}
		r.rec.wrote(begin, end, mode == writerAsync, err)
	})
}

// readLoop sends reads on schedule, each on its own, and waits for those in flight.
func (r *run) readLoop(ctx context.Context) {
	send := r.sender()
	places := make(chan struct{}, maxInFlight)
	var wg sync.WaitGroup
	defer wg.Wait()
	Pace(ctx, r.now, r.offer.Load, func(late time.Duration) {
		r.rec.stalled(late)
		select {
		case places <- struct{}{}:
			wg.Go(func() {
				send(ctx)
				<-places
			})
		default:
			r.rec.skipped()
		}
	})
}

// sender makes the read that is due: straight through the library, or by way of the read path.
func (r *run) sender() func(context.Context) {
	if p := r.path; p != nil {
		return func(ctx context.Context) { p.read(ctx, p.next()) }
	}
	reader := r.db.Reader(replica.Requirement{})
	return func(ctx context.Context) { r.read(ctx, reader) }
}

// read makes one read through the library. At the end of the run those in flight are
// still counted; after an interruption nobody asks.
func (r *run) read(ctx context.Context, reader *pgxread.Reader) {
	var info pgxread.ReadInfo
	a := answer{phase: r.rec.in(), begin: r.now()}
	a.err = reader.QueryRow(pgxread.WithInfo(context.WithoutCancel(ctx), &info), truth.ReadSQL).Scan(&a.value)
	a.end = r.now()
	a.node, a.flagged, a.pickedAt = info.Node, info.Unverified, r.at(info.PickedAt)
	a.source = readpath.FromReplica
	if info.Primary {
		a.source = readpath.FromPrimary
	}
	a.attempts, a.refused = info.Attempts, isRefusal(a.err)
	r.answered(a)
}

// answered records an answer, and tells it to whoever plays with the run.
func (r *run) answered(a answer) Answer {
	told := Answer{
		Begin: a.begin, Took: a.end - a.begin, Class: a.class, Source: a.source, Node: a.node, Flagged: a.flagged,
		Attempts: a.attempts, Refused: a.refused, Shed: a.shed, Err: a.err,
	}
	told.Stale = r.rec.read(a) || a.missed
	if r.hooks.Answer != nil {
		r.hooks.Answer(told)
	}
	return told
}

// checkLoop compares, out of band, the staleness bound that is told for a replica with
// the truth, by a connection of its own.
func (r *run) checkLoop(ctx context.Context, node Node) {
	var conn *pgx.Conn
	defer func() { drop(ctx, conn) }()
	Every(ctx, checkEvery, func() {
		var err error
		if conn, err = r.check(ctx, node, conn); err != nil {
			drop(ctx, conn)
			conn = nil
		}
	})
}

func (r *run) check(ctx context.Context, node Node, conn *pgx.Conn) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	if conn == nil {
		var err error
		if conn, err = pgx.Connect(ctx, node.DSN); err != nil {
			return nil, err
		}
	}
	t := r.now() // before Hi is computed: Hi is then told for this moment or later
	hi := r.stats(node.Name).Hi
	var n int64
	if err := conn.QueryRow(ctx, truth.ReadSQL).Scan(&n); err != nil {
		return conn, err
	}
	if hi != replica.Never && r.now()-t <= checkUsable {
		r.rec.checked(r.acks.Age(n, t), hi)
	}
	return conn, nil
}

func drop(ctx context.Context, conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 100*time.Millisecond)
	defer cancel()
	_ = conn.Close(ctx)
}
