package postgres

import (
	"math"
	"strings"
	"testing"
)

func TestParseLSN(t *testing.T) {
	for text, want := range map[string]uint64{"0/0": 0, "16/B374D848": 0x16B374D848, "FFFFFFFF/FFFFFFFF": math.MaxUint64} {
		got, err := ParseLSN(text)
		if err != nil || got != want || FormatLSN(got) != text {
			t.Errorf("ParseLSN(%q) = %X, %v, printed %q", text, got, err, FormatLSN(got))
		}
	}
	for _, text := range []string{"", "0", "/", "0/", "/0", "x/1", "1/x", "100000000/0", "-1/0", "0/0/0"} {
		if _, err := ParseLSN(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("ParseLSN(%q): %v, want an error that names it", text, err)
		}
	}
}

// REQ-R8; lag.md M1: at the start of a segment or page the insert position already counts a header
// that no record has filled, where the replay position rests before it.
func TestNormalize(t *testing.T) {
	const seg = 16 << 20
	for insert, want := range map[uint64]uint64{
		5*seg + 40: 5 * seg, 5 * seg: 5 * seg, 5*seg + 41: 5*seg + 41, 5*seg + 24: 5 * seg,
		3*8192 + 24: 3 * 8192, 3*8192 + 40: 3*8192 + 40, 3*8192 + 25: 3*8192 + 25, 0: 0,
	} {
		if got := Normalize(insert, seg); got != want {
			t.Errorf("Normalize(%d) = %d, want %d", insert, got, want)
		}
	}
	if got := Normalize(64<<20+40, 0); got != 64<<20 {
		t.Errorf("with the default segment size: %d", got)
	}
	if got := Normalize(1<<20+40, 1<<20); got != 1<<20 {
		t.Errorf("with a segment size of 1 MiB: %d", got)
	}
}

func FuzzLSN(f *testing.F) {
	f.Add("16/B374D848")
	f.Fuzz(func(t *testing.T, s string) {
		lsn, err := ParseLSN(s)
		if err != nil {
			return
		}
		again, err := ParseLSN(FormatLSN(lsn))
		if err != nil || again != lsn {
			t.Errorf("%q read as %d, printed and read again as %d, %v", s, lsn, again, err)
		}
	})
}
