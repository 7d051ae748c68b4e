package postgres

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// row answers Scan with fixed columns, nil for NULL.
type row []any

func (r row) Scan(dest ...any) error {
	if len(dest) != len(r) {
		return fmt.Errorf("%d destinations for %d columns", len(dest), len(r))
	}
	for i, d := range dest {
		v := reflect.ValueOf(d).Elem()
		switch {
		case r[i] == nil && v.Kind() == reflect.Pointer:
			v.SetZero()
		case r[i] == nil:
			return errors.New("NULL into a plain value")
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			v.Elem().Set(reflect.ValueOf(r[i]))
		default:
			v.Set(reflect.ValueOf(r[i]))
		}
	}
	return nil
}

const seg = int64(16 << 20)

func TestScanLook(t *testing.T) {
	cases := []struct {
		name string
		row  row
		want replica.Look
	}{
		{
			"primary, at a segment start",
			row{false, "7", "1.5:5432", "0/5000028", nil, "00000002", nil, "1", nil, false, true, "app", seg, "0/4FFFF00"},
			replica.Look{SystemID: "7", Instance: "1.5:5432", Timeline: 2, Position: 0x5000000, Flushed: 0x4FFFF00},
		},
		{
			"streaming replica",
			row{true, "7", "2.5:5433", "0/500", "0/600", nil, "10", "1", "streaming", false, true, "app", seg, nil},
			replica.Look{SystemID: "7", Instance: "2.5:5433", InRecovery: true, Timeline: 10, Position: 0x500, Received: 0x600},
		},
		{
			"cut-off and paused replica: the control file tells the timeline",
			row{true, "7", "2.5:5433", "0/500", nil, nil, nil, "3", nil, true, true, "app", seg, nil},
			replica.Look{SystemID: "7", Instance: "2.5:5433", InRecovery: true, ControlTimeline: 3, Position: 0x500, ReceiverDown: true, ReplayPaused: true},
		},
		{
			"replica that has replayed nothing, seen without rights",
			row{true, "7", "2.5:5433", nil, nil, nil, nil, "1", nil, false, false, "app", seg, nil},
			replica.Look{
				SystemID: "7", Instance: "2.5:5433", InRecovery: true, ControlTimeline: 1, ReceiverDown: true,
				MissingRights: `the sampling role may not see the WAL receiver: GRANT pg_monitor TO "app"`,
			},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ScanLook(tc.row)
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v\nwant %+v", got, err, tc.want)
			}
		})
	}
}

func TestScanLookFaults(t *testing.T) {
	good := row{true, "7", "1:2", "0/1", "0/1", nil, "1", "1", "streaming", false, true, "app", seg, nil}
	for i, bad := range map[int]string{3: "nonsense", 4: "0-1", 6: "x", 7: "-1"} {
		r := append(row{}, good...)
		r[i] = bad
		if i == 7 {
			r[6] = nil
		}
		if _, err := ScanLook(r); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("column %d = %q: %v", i, bad, err)
		}
	}
	primary := row{false, "7", "1:2", "0/1", nil, "00000001", nil, "1", nil, false, true, "app", seg, "0"}
	if _, err := ScanLook(primary); err == nil {
		t.Error("a flush position that is none was taken")
	}
}

// REQ-B9, REQ-R6: only what says that the server is not serving counts against it.
func TestOutcome(t *testing.T) {
	for code, want := range map[string]breaker.Outcome{
		"57P01": breaker.Failure, "57P02": breaker.Failure, "57P03": breaker.Fatal, "08006": breaker.Failure, "08P01": breaker.Failure,
		"42601": breaker.Ignored, "23505": breaker.Ignored, "40001": breaker.Ignored, "57014": breaker.Ignored,
		"25006": breaker.Ignored, "53300": breaker.Ignored, "": breaker.Ignored, "08": breaker.Ignored,
	} {
		if got := Outcome(code); got != want {
			t.Errorf("Outcome(%q) = %v, want %v", code, got, want)
		}
	}
}

// behaviours-routing 44: a write that reached a read-only node is never tried again.
func TestRetrySafe(t *testing.T) {
	for code, want := range map[string]bool{
		"57P01": true, "57P03": true, "08006": true, "53300": true, "40001": true,
		ReadOnlyTransaction: false, "42601": false, "57014": false, "": false,
	} {
		if got := RetrySafe(code); got != want {
			t.Errorf("RetrySafe(%q) = %v, want %v", code, got, want)
		}
	}
}

// REQ-R12: a position is the normalised insert position, so that a replica at rest reaches it.
func TestScanPosition(t *testing.T) {
	got, err := ScanPosition(row{"7", "0000000A", "0/5000028", "16777216"})
	if want := (replica.Position{SystemID: "7", Timeline: 10, LSN: 0x5000000}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for i, bad := range []string{1: "none", 2: "0-5", 3: "16MB"} {
		r := row{"7", "0000000A", "0/5000028", "16777216"}
		if r[i] = bad; bad == "" {
			r[i] = nil
		}
		if got, err := ScanPosition(r); err == nil || !got.IsZero() {
			t.Errorf("column %d = %v: %v, %v", i, r[i], got, err)
		}
	}
}
