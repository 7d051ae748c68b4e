package readpath

import "fmt"

// A Class is how critical a read is (REQ-D2). The zero value is none.
type Class uint8

const (
	// Critical reads are fresh or fail: degraded, they go to the primary within its
	// budget, else they are refused (REQ-D4).
	Critical Class = iota + 1
	// Degradable reads may be answered with old data, which is told (REQ-D5).
	Degradable
	// Sheddable reads are dropped when the path is degraded (REQ-D6).
	Sheddable
)

// classes is how many there are, the zero value counted.
const classes = Sheddable + 1

// String returns the class as one lower-case word.
func (c Class) String() string {
	switch c {
	case Critical:
		return "critical"
	case Degradable:
		return "degradable"
	case Sheddable:
		return "sheddable"
	default:
		return fmt.Sprintf("class(%d)", uint8(c))
	}
}

// MarshalText returns the word of [Class.String]. It never fails.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText takes the word of a class.
func (c *Class) UnmarshalText(text []byte) error {
	for k := Critical; k < classes; k++ {
		if k.String() == string(text) {
			*c = k
			return nil
		}
	}
	return fmt.Errorf("readpath: class %q: use critical, degradable or sheddable", text)
}

func (c Class) valid() bool { return c >= Critical && c < classes }

// A Source is where an answer came from. The zero value is none: there was no answer.
type Source uint8

const (
	// FromReplica is a replica within the read's bound, or with Result.Stale a late one.
	FromReplica Source = iota + 1
	// FromPrimary is the primary.
	FromPrimary
	// FromCache is the stale cache.
	FromCache
	// FromDefault is the endpoint's default value, or the zero value.
	FromDefault
)

const sources = FromDefault + 1

// String returns the source as one lower-case word.
func (s Source) String() string {
	switch s {
	case FromReplica:
		return "replica"
	case FromPrimary:
		return "primary"
	case FromCache:
		return "cache"
	case FromDefault:
		return "default"
	default:
		return "none"
	}
}

// MarshalText returns the word of [Source.String]. It never fails.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
