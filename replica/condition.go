package replica

// Condition says whether a node may take a read, and if not, why.
type Condition uint8

const (
	// Fit means: the node may take the read.
	Fit Condition = iota
	// NoSample means: it has not been sampled yet.
	NoSample
	// Unreachable means: the newest sample failed or timed out; it counts as infinitely late (REQ-R3).
	Unreachable
	// Late means: the newest sample's Lo exceeds the trip threshold (REQ-R4).
	Late
	// Stale means: Hi exceeds the read's bound.
	Stale
	// UnknownPrimary means: the primary cannot be sampled, so staleness cannot be bounded (REQ-R14).
	UnknownPrimary
	// Promoted means: it is no longer in recovery.
	Promoted
	// OtherTimeline means: it follows another timeline than the primary's.
	OtherTimeline
	// OtherCluster means: its system identifier is not the primary's.
	OtherCluster
	// Duplicate means: it is the same server as another node of the Set.
	Duplicate
	// NoRights means: the sampling role may not see what sampling needs.
	NoRights
	// NotPrimary means: the node configured as primary is in recovery.
	NotPrimary
	// Open means: its breaker does not admit reads.
	Open
	// Saturated means: it has its cap of reads in flight.
	Saturated
	// Excepted means: the read asked for another node.
	Excepted
	// Behind means: it has not replayed up to the position that the read asks for.
	Behind
)

// String returns the condition's word, as it stands in JSON and metrics.
func (c Condition) String() string {
	words := [...]string{
		"ok", "no_sample", "unreachable", "late", "stale", "unknown_primary", "promoted", "timeline",
		"other_cluster", "duplicate", "no_rights", "not_primary", "open", "saturated", "excepted",
		"behind",
	}
	if int(c) < len(words) {
		return words[c]
	}
	return "invalid"
}

// MarshalText writes the word.
func (c Condition) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// structural conditions hold whatever a read asks for, until a later look.
func (c Condition) structural() bool { return c != Fit && c < Late || c >= Promoted && c <= NotPrimary }
