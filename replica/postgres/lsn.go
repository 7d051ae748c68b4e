package postgres

import (
	"fmt"
	"strconv"
	"strings"
)

const pageSize = 8192

// ParseLSN reads a WAL position as PostgreSQL prints it, "16/B374D848", in bytes.
func ParseLSN(s string) (uint64, error) {
	hi, lo, ok := strings.Cut(s, "/")
	h, errHi := strconv.ParseUint(hi, 16, 32)
	l, errLo := strconv.ParseUint(lo, 16, 32)
	if !ok || errHi != nil || errLo != nil {
		return 0, fmt.Errorf("postgres: WAL position %q is not of the form 16/B374D848", s)
	}
	return h<<32 | l, nil
}

// FormatLSN prints a WAL position as PostgreSQL does.
func FormatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn)) }

// Normalize takes off the header that the insert position of a primary already
// counts at the start of a WAL segment (40 bytes) or page (24 bytes), although no
// record has filled it: a replica's replay position rests before it, and an idle
// primary after a segment switch would show a lag that never ends. A segment size
// of 0 means PostgreSQL's default, 16 MiB.
func Normalize(insert, segmentSize uint64) uint64 {
	if segmentSize == 0 {
		segmentSize = 16 << 20
	}
	switch {
	case insert%segmentSize == 40:
		return insert - 40
	case insert%pageSize == 24:
		return insert - 24
	}
	return insert
}

func parseNull(s *string) (uint64, error) {
	if s == nil {
		return 0, nil
	}
	return ParseLSN(*s)
}

func parseTimeline(s *string, base int) (uint32, error) {
	if s == nil {
		return 0, nil
	}
	t, err := strconv.ParseUint(*s, base, 32)
	if err != nil {
		return 0, fmt.Errorf("postgres: timeline %q is not a number", *s)
	}
	return uint32(t), nil
}
