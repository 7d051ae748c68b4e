package replica

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Position is a place in a cluster's WAL, taken after a commit: a node of the same
// timeline that has replayed up to it holds that commit. A read that asks for it
// (Requirement.Position) sees what was written before it was taken. It is a value: comparable,
// safe for concurrent use, and small enough for a header or a cookie. The zero value is none.
type Position struct {
	// SystemID identifies the cluster, as Look.SystemID does.
	SystemID string
	// Timeline is the primary's timeline, at least 1.
	Timeline uint32
	// LSN is the normalised WAL insert position of the primary, in bytes. 0: none.
	LSN uint64
}

// ErrMalformedPosition is matched by the error of a text that is no position, or no signed one.
var ErrMalformedPosition = errors.New("replica: malformed position")

// Lengths of a position's text, so that one who reads a header can bound it.
const (
	maxSystemID = 32
	// MaxPositionText is the longest text of a Position or of a signed one, in bytes.
	MaxPositionText = maxSystemID + len(".4294967295.FFFFFFFFFFFFFFFF") + len("..") + maxKeyID + tagText
)

// IsZero tells whether p is none.
func (p Position) IsZero() bool { return p.LSN == 0 }

// String is the position as text, system identifier, timeline and LSN in hexadecimal with
// dots between them: 7458123456789012345.1.16B374D848. It needs no escaping in a URL, a header or a
// cookie. None is the empty text.
func (p Position) String() string {
	if p.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s.%d.%X", p.SystemID, p.Timeline, p.LSN)
}

// MarshalText is String.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePosition.
func (p *Position) UnmarshalText(text []byte) error {
	parsed, err := ParsePosition(string(text))
	if err == nil {
		*p = parsed
	}
	return err
}

// ParsePosition reads what String wrote, and nothing else: a position has one text. The
// empty text is none. The error matches ErrMalformedPosition.
func ParsePosition(text string) (Position, error) {
	if text == "" {
		return Position{}, nil
	}
	system, rest, _ := strings.Cut(text, ".")
	timeline, lsn, _ := strings.Cut(rest, ".")
	t, errT := strconv.ParseUint(timeline, 10, 32)
	l, errL := strconv.ParseUint(lsn, 16, 64)
	p := Position{SystemID: strings.Clone(system), Timeline: uint32(t), LSN: l}
	if errT != nil || errL != nil || t == 0 || !isWord(system, maxSystemID) || p.String() != text {
		return Position{}, malformed(text)
	}
	return p, nil
}

// malformed quotes a text that may be anybody's, but no more of it than a position could have.
func malformed(text string) error {
	return fmt.Errorf("%w: %.*q: give what String or Sign returned", ErrMalformedPosition, MaxPositionText, text)
}

// isWord tells whether s is 1 to limit letters, digits, hyphens and underscores.
func isWord(s string, limit int) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '-', c == '_':
		default:
			return false
		}
	}
	return s != "" && len(s) <= limit
}

// Merge returns a position that covers both: the one of the newer timeline, and on the
// same one the later. All of the older timeline that outlived the promotion lies before any
// position taken on the newer one. None and p make p. Positions of two clusters have
// none in common: the error is a *PositionError that matches ErrForeignPosition.
func (p Position) Merge(q Position) (Position, error) {
	switch {
	case q.IsZero():
		return p, nil
	case p.IsZero():
		return q, nil
	case p.SystemID != q.SystemID:
		return Position{}, &PositionError{Position: q, Condition: OtherCluster, Detail: "it cannot be merged with one of system identifier " + p.SystemID}
	case p.Timeline > q.Timeline, p.Timeline == q.Timeline && p.LSN > q.LSN:
		return p, nil
	}
	return q, nil
}

type positionKey struct{}

// WithPosition returns a context that carries p, merged with the position that ctx carries
// already. Drivers have their reads under it ask for it. A context is of one
// cluster: a position of another one takes the place of the first.
func WithPosition(ctx context.Context, p Position) context.Context {
	merged, err := PositionFrom(ctx).Merge(p)
	if err != nil {
		merged = p
	}
	return context.WithValue(ctx, positionKey{}, merged)
}

// PositionFrom returns the position that ctx carries, none if it carries none.
func PositionFrom(ctx context.Context) Position {
	p, _ := ctx.Value(positionKey{}).(Position)
	return p
}
