package emit

import "time"

// A pace says how fast a lane replays: from slow on it doubles while all is well, and beside live traffic it keeps to a share.
// It belongs to the lane's goroutine.
type pace struct {
	share float64
	rate  float64 // letters a second
	next  time.Duration
	took  time.Duration // an attempt of late, smoothed

	window struct {
		end              time.Duration
		good, slow, fail int
	}
	traffic struct {
		since        time.Duration
		live, handed uint64  // at since
		liveRate     float64 // a second
		handedRate   float64
	}
}

const (
	slowestPace  = 16.0    // letters a second, to begin with
	fastestPace  = 1 << 20 // where nothing slows it
	leastPace    = 10.0    // beside live traffic, however little there is of it
	paceWindow   = 250 * time.Millisecond
	paceBurst    = 20 * time.Millisecond // what it catches up on after it was not asked
	trafficSpan  = time.Second
	worstPace    = 1.0
	handedMargin = 1.25 // more than comes in, so that what can only be replayed never piles up
	tookWeight   = 8    // the newest attempt is an eighth of took
)

func newPace() pace { return pace{rate: slowestPace} }

// wait is how long the next attempt must wait; 0: it may begin, and counts as begun.
func (p *pace) wait(now time.Duration) time.Duration {
	if now < p.next {
		return p.next - now
	}
	p.next = max(p.next, now-paceBurst) + time.Duration(float64(time.Second)/p.limit())
	return 0
}

// most is how many of n attempts may begin now, or how long the first must wait.
func (p *pace) most(now time.Duration, n int) (begin int, wait time.Duration) {
	for ; begin < n; begin++ {
		if wait = p.wait(now); wait > 0 {
			break
		}
	}
	return begin, wait
}

// giveBack takes back attempts that did not begin.
func (p *pace) giveBack(n int) {
	p.next -= time.Duration(n) * time.Duration(float64(time.Second)/p.limit())
}

// limit is the rate by now.
func (p *pace) limit() float64 {
	if p.traffic.liveRate == 0 || p.share >= 1 {
		return p.rate
	}
	most := max(leastPace, p.traffic.liveRate*p.share/(1-p.share)) + handedMargin*p.traffic.handedRate
	return min(p.rate, most)
}

// room is how many attempts may begin beside the calls in flight, of which mine are attempts: up to the share of the bulkhead while live
// calls leave it; and as many as the triggers need that can only be replayed, while as much as that share stays free.
func (p *pace) room(bulkhead, inFlight, mine int) int {
	share := max(1, int(p.share*float64(bulkhead)))
	if inFlight-mine > bulkhead-share {
		return 0
	}
	need := min(float64(bulkhead), p.share*float64(bulkhead)+handedMargin*p.traffic.handedRate*p.took.Seconds())
	return max(share-mine, min(int(need)-mine, bulkhead-share-inFlight))
}

// measure takes in how many emits, and how many triggers that can only be replayed, have come so far.
func (p *pace) measure(now time.Duration, live, handed uint64) {
	span := now - p.traffic.since
	if span < trafficSpan {
		return
	}
	p.traffic.liveRate = float64(live-p.traffic.live) / span.Seconds()
	p.traffic.handedRate = float64(handed-p.traffic.handed) / span.Seconds()
	p.traffic.since, p.traffic.live, p.traffic.handed = now, live, handed
}

// ended takes in how an attempt ended.
func (p *pace) ended(now, took time.Duration, slow, failed bool) {
	p.took += (took - p.took) / tookWeight
	w := &p.window
	switch {
	case failed:
		w.fail++
	case slow:
		w.slow++
	default:
		w.good++
	}
	if now < w.end && w.fail == 0 {
		return
	}
	switch {
	case w.fail > 0:
		p.rate = min(p.rate, slowestPace)
	case w.slow > 0:
		p.rate = max(worstPace, p.rate/2)
	default:
		p.rate = min(fastestPace, p.rate*2)
	}
	w.good, w.slow, w.fail, w.end = 0, 0, 0, now+paceWindow
}
