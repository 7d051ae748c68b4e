package truth

import (
	"testing"
	"time"
)

const ms = time.Millisecond

// The age of an answer counts from the oldest acknowledged commit that it lacks.
func TestAgeCountsFromTheOldestMissingCommit(t *testing.T) {
	var a Acks
	a.Add(1, 100*ms)
	a.Add(2, 120*ms)
	a.Add(3, 5000*ms)
	tests := []struct {
		name   string
		n      int64
		at     time.Duration
		want   time.Duration
		reason string
	}{
		{"lacks nothing", 3, 9000 * ms, 0, "the newest value"},
		{"lacks the newest", 2, 9000 * ms, 4000 * ms, "3 was acknowledged at 5 s"},
		{"lacks two", 1, 9000 * ms, 8880 * ms, "2 is the oldest that is missing"},
		{"lacks all", 0, 9000 * ms, 8900 * ms, "1 is the oldest that is missing"},
		{"acknowledged after the read began", 2, 4000 * ms, 0, "3 came later than the read"},
		{"acknowledged at the same instant", 2, 5000 * ms, 0, "no age yet"},
		{"ahead of what was acknowledged", 4, 9000 * ms, 0, "a commit shows before its writer hears of it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := a.Age(tt.n, tt.at); got != tt.want {
				t.Errorf("Age(%d, %v): got %v, want %v: %s", tt.n, tt.at, got, tt.want, tt.reason)
			}
		})
	}
}

// Nothing acknowledged yet means that no answer can be late.
func TestAgeBeforeTheFirstCommit(t *testing.T) {
	var a Acks
	if got := a.Age(0, time.Hour); got != 0 {
		t.Errorf("Age: got %v, want 0", got)
	}
	if got := a.Newest(); got != 0 {
		t.Errorf("Newest: got %d, want 0", got)
	}
}

// Memory is bounded: an answer older than what is remembered is still late.
func TestAgeOfWhatIsForgotten(t *testing.T) {
	var a Acks
	for n := int64(1); n <= 2*kept; n++ {
		a.Add(n, time.Duration(n)*ms)
	}
	now := time.Duration(2*kept) * ms
	if got, want := a.Age(3, now), (kept-1)*ms; got != want {
		t.Errorf("Age of a forgotten value: got %v, want %v", got, want)
	}
	if got, want := a.Age(2*kept-1, now+ms), 1*ms; got != want {
		t.Errorf("Age of the last but one: got %v, want %v", got, want)
	}
}
