package breaker

import (
	"time"
	"unsafe"
)

// A Permit lets one call run and takes its result. The zero value, and a
// permit that was used, do nothing. Do not copy a permit that is not used yet,
// and do not use one from two goroutines at once.
type Permit struct {
	b     *Breaker
	word  uint64        // the state word under which the call was admitted; 0 once used
	probe *probe        // the reservation, for a half-open probe
	began time.Duration // since the clock's base, where word has measuredFlag; of a probe when it was answered, or 0
}

// Done reports the end of the call: nil is a Success, any other error is what
// Config.Classify says. The result counts once, and only if the breaker has
// not changed its state since the call was admitted (REQ-B8). A success of a
// closed breaker waits for no lock, allocates nothing (but for the one that
// finds the breaker busy and makes its stripes) and, without a time window, a latency rule or Config.Histogram,
// reads no clock. A permit that was used, and the zero one, do nothing.
func (p *Permit) Done(err error) {
	if err != nil {
		p.doneError(err)
		return
	}
	b, word := p.b, p.word
	if !isPlain(word) {
		p.doneSuccess()
		return
	}
	p.word = 0 // not p.b: a pointer would cost a look at the write barrier
	c := b.near(uintptr(unsafe.Pointer(p)))
	if !c.count(word) {
		b.amend(c, word)
	}
}

func (p *Permit) doneError(err error) (o Outcome) {
	if p.used() {
		return Ignored
	}
	o = Failure // also if Classify ends the goroutine
	defer func() { p.DoneAs(o, err) }()
	o = p.b.classify(err)
	return o
}

// doneSuccess is DoneAs(Success, nil), with a shorter way for a closed breaker.
func (p *Permit) doneSuccess() {
	b, word := p.b, p.word
	switch {
	case isTimed(word):
		p.word = 0
		if !b.quickEnd(word, p.began) {
			b.endTimed(word, p.began)
		}
	case word != 0 && word < measuredFlag:
		p.word = 0
		b.countSuccess(word)
	default:
		p.DoneAs(Success, nil)
	}
}

func (p *Permit) used() bool { return p.word == 0 }

// Answered says that the target has answered, though the call goes on: an HTTP response whose
// body the caller will read, the first message of a stream. Its duration for the latency rules and
// the histogram ends here, so that a slow reader is no slow target; its outcome is still to be
// reported. It does nothing a second time, and where calls are not timed.
func (p *Permit) Answered() {
	if p.used() {
		return
	}
	b, word := p.b, p.word
	switch {
	case p.probe != nil:
		if p.began == 0 {
			p.began = b.clock.since()
		}
	case word&measuredFlag != 0:
		p.word &^= measuredFlag
		b.answered(word, p.began)
	}
}

// DoneAs is Done for a caller who classified the result itself. Of err only
// the text is used, for the Reason.
func (p *Permit) DoneAs(o Outcome, err error) {
	if p.used() {
		return
	}
	b, word := p.b, p.word
	p.word = 0
	if o > Fatal {
		b.report(Fault{Part: "outcome", Detail: o.String() + " counts as a failure"})
		o = Failure
	}
	switch {
	case stateOf(word) == Disabled:
	case p.probe != nil:
		b.recordProbe(p, word, o, err)
	case o == Success:
		b.recordSuccess(word, p.began)
	case o == Ignored:
		b.recordIgnored(word, p.began)
	default:
		b.recordFailure(word, p.began, o, err)
	}
}

func (b *Breaker) recordSuccess(word uint64, began time.Duration) {
	if word&measuredFlag != 0 {
		b.endTimed(word, began)
		return
	}
	b.countSuccess(word)
}

// countSuccess adds a success to a cell.
func (b *Breaker) countSuccess(word uint64) {
	c := b.near(uintptr(unsafe.Pointer(&word)))
	sum := c.word.Add(cellOne)
	if !fits(sum, word) {
		b.amend(c, word)
	}
	if word&timedFlag != 0 && sameGeneration(sum, word) && sum>>cellGenBits&b.sampling.Load() == 0 {
		b.rollWindows()
	}
}

func (b *Breaker) recordIgnored(word uint64, began time.Duration) {
	b.ignored.Add(1)
	if word&measuredFlag != 0 && generationOf(b.loadWord()) == generationOf(word) {
		b.withdraw(began, b.clock.since())
	}
}

// rollWindows is a success that looks at the clock: it begins the next step of
// the time windows if that is due, and after many looks within one step lets
// fewer successes look. Whoever does not get the lock leaves it to the next
// one: the closed path never waits.
func (b *Breaker) rollWindows() {
	now := b.clock.since()
	due := int64(now) >= b.edge.Load()
	if !due && b.looks.Add(1) < looksPerStep || !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	b.looks.Store(0)
	t := b.tallyLocked()
	for _, w := range b.mu.times {
		if due {
			w.roll(now, t.successes-min(1, t.successes)) // the caller's own one belongs to the new step
		} else {
			w.every = min(2*w.every, maxSampling)
		}
	}
	b.retimeLocked()
}

func (b *Breaker) recordFailure(word uint64, began time.Duration, o Outcome, err error) {
	text := errorText(err)
	b.mu.Lock()
	defer b.unlockAndDeliver()
	current := b.loadWord()
	if generationOf(current) != generationOf(word) {
		b.late.Add(1)
		return
	}
	reason, opens := b.judgeFailureLocked(o)
	b.retimeLocked()
	if opens && stateOf(current) == Closed {
		b.openLocked(reason.withError(text))
		return
	}
	if word&measuredFlag != 0 {
		b.endFailedLocked(began)
	}
}

// judgeFailureLocked counts a failure and asks every rule.
func (b *Breaker) judgeFailureLocked(o Outcome) (reason Reason, opens bool) {
	t := b.failLocked()
	reason, opens = Reason{Rule: RuleFatal}, o == Fatal
	for _, in := range b.mu.detectors {
		d, ok := in.detector.(failureDetector)
		if !ok {
			continue
		}
		r, holds := d.failed(t)
		if b.opensLocked(in, r, holds) && !opens {
			reason, opens = r, true
		}
	}
	if r, tooMany := b.ramp.failed(t, &b.settings.Load().Ramp); tooMany && !opens {
		reason, opens = r, true
	}
	return reason, opens
}

// withError adds the text of the last error to the detail.
func (r Reason) withError(text string) Reason {
	if text == "" {
		return r
	}
	if r.Detail != "" {
		r.Detail += ", "
	}
	r.Detail += "last error: " + text
	return r
}

// failLocked counts one failure.
func (b *Breaker) failLocked() tally {
	t := b.tallyLocked()
	if t.successes != b.mu.streakMark {
		b.mu.streak, b.mu.streakMark = 0, t.successes
	}
	b.mu.failures++
	b.mu.streak++
	t.failures, t.streak = b.mu.failures, b.mu.streak
	return t
}

// tallyLocked is what was counted until now.
func (b *Breaker) tallyLocked() tally {
	successes := b.successesLocked() + b.fastLocked()
	return tally{now: b.clock.since(), successes: successes, failures: b.mu.failures, streak: b.mu.streak}
}

func (b *Breaker) timedLocked() bool { return len(b.mu.times) > 0 }

// retimeLocked publishes when and how often successes look at the clock.
func (b *Breaker) retimeLocked() {
	if !b.timedLocked() {
		return
	}
	edge, every := b.mu.times[0].edge(), b.mu.times[0].every
	for _, w := range b.mu.times[1:] {
		edge, every = min(edge, w.edge()), min(every, w.every)
	}
	b.edge.Store(int64(edge))
	b.sampling.Store(every - 1)
}

// Classify tells what Config.Classify says of the error of a call that the breaker did not
// admit. nil is a Success; a panic of Config.Classify is a Failure, and reported. It changes nothing.
func (b *Breaker) Classify(err error) Outcome {
	if err == nil {
		return Success
	}
	return b.classify(err)
}

// classify asks Config.Classify. Its panic counts as a failure and is reported
// (REQ-B18).
func (b *Breaker) classify(err error) (o Outcome) {
	returned := false
	defer func() {
		if returned {
			return
		}
		o = Failure
		if v := recover(); v != nil {
			b.report(Fault{Part: "Classify", Detail: "panicked; the call counts as a failure", Panic: v})
		}
	}()
	if o = Ignored; !isIgnored(err) {
		o = b.settings.Load().Classify(err)
	}
	returned = true
	return o
}
