package prombreakwater

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxLabel  = 128 // bytes
	maxReason = 48  // bytes
	// other is the reason of transitions whose rule is no word, or is one too many.
	other = "other"
)

// A labeller makes values of labels from names. Its seed is of this process, so that what it hides cannot be guessed from outside.
type labeller struct{ seed maphash.Seed }

func (l labeller) name(s string) string {
	if secretive(s) {
		return fmt.Sprintf("hidden-%08x", uint32(maphash.String(l.seed, s))) //nolint:gosec // half of the hash is enough to tell names apart
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	for len(s) > maxLabel {
		_, last := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-last]
	}
	return s
}

// secretive tells a name that looks like a connection string (a URL with a user, or words of key=value) or like SQL.
func secretive(s string) bool {
	lower := strings.ToLower(strings.TrimSpace(s))
	_, rest, url := strings.Cut(lower, "://")
	if url && strings.ContainsAny(rest, "@?") || strings.Contains(lower, "password") || strings.Contains(lower, "host=") {
		return true
	}
	verb, _, more := strings.Cut(lower, " ")
	return more && slices.Contains([]string{"select", "insert", "update", "delete", "with"}, verb)
}

// reason is the rule of a transition as a label: callers of Trip may hand over any text.
func reason(rule string) string {
	if rule == "" || len(rule) > maxReason {
		return other
	}
	for _, r := range rule {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return other
		}
	}
	return rule
}
