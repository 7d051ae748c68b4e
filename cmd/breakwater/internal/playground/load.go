package playground

import (
	"fmt"
	"slices"
	"sync"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// The load without a word of anybody's, and its bounds.
const (
	defaultReads  = 200
	defaultEmits  = 120 // together
	defaultWrites = 50
	maxReads      = 10_000
	maxEmits      = 3_000
	maxWrites     = 1_000
)

// What a scenario needs to show something.
var scenarioLoad = api.LabLoad{ReadsPerSec: 100, EmitsPerSec: 90, WritesPerSec: 20}

// load is the traffic that is asked for. The zero value asks for none.
type load struct {
	mu struct {
		sync.Mutex
		asked    api.LabLoad
		scenario bool // one runs
	}
}

func defaults(o lab.Options) api.LabLoad {
	l := api.LabLoad{ReadsPerSec: defaultReads, EmitsPerSec: defaultEmits, WritesPerSec: defaultWrites}
	if o.Rate > 0 {
		l.ReadsPerSec = o.Rate
	}
	return l
}

func (l *load) asked() api.LabLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.asked
}

func (l *load) set(to api.LabLoad) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.asked = to
}

// playing says whether a scenario runs, which has at least what it needs.
func (l *load) playing(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.scenario = on
}

// made is the load that is made.
func (l *load) made() api.LabLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	made := l.mu.asked
	if l.mu.scenario {
		made.ReadsPerSec = max(made.ReadsPerSec, scenarioLoad.ReadsPerSec)
		made.EmitsPerSec = max(made.EmitsPerSec, scenarioLoad.EmitsPerSec)
		made.WritesPerSec = max(made.WritesPerSec, scenarioLoad.WritesPerSec)
	}
	return made
}

func (l *load) reads() int64 { return int64(l.made().ReadsPerSec) }

func (l *load) emits() int64 { return int64(l.made().EmitsPerSec) }

// Load changes the traffic (api.Lab). Its error is an *api.InvalidError with every fault; nothing has changed then.
func (p *Playground) Load(r api.LoadRequest) error {
	to := p.load.asked()
	bad := slices.Concat(
		take(&to.ReadsPerSec, r.ReadsPerSec, "reads_per_sec", maxReads),
		take(&to.EmitsPerSec, r.EmitsPerSec, "emits_per_sec", maxEmits),
		take(&to.WritesPerSec, r.WritesPerSec, "writes_per_sec", maxWrites),
		take(&to.OwnWrites, r.OwnWrites, "own_writes", 1),
	)
	if len(bad) > 0 {
		return &api.InvalidError{Fields: bad}
	}
	if r.Unprotected != nil {
		to.Unprotected = *r.Unprotected
	}
	p.load.set(to)
	p.apply()
	return p.while(p.twin.follow)
}

// take takes a field that was asked for; nil stays.
func take[N int | float64](to, asked *N, field string, most N) []api.FieldFault {
	switch {
	case asked == nil:
		return nil
	case *asked >= 0 && *asked <= most: // false for NaN
		*to = *asked
		return nil
	}
	return []api.FieldFault{{Field: field, Value: fmt.Sprint(*asked), Mend: fmt.Sprintf("use a number from 0 to %v", most)}}
}

// apply hands the load to those who make it; the emits look it up themselves.
func (p *Playground) apply() {
	made := p.load.made()
	p.bench.SetLoad(made.ReadsPerSec, made.WritesPerSec, made.OwnWrites)
}
