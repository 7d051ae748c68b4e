package api

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// minSecret is the shortest secret that is looked for, in bytes: of a shorter one each hit would be by chance.
const minSecret = 4

// redacted stands in a secret's place.
const redacted = "…"

// A Redactor replaces known secrets in texts that leave the process: an error of a driver may quote a password. The zero value and nil know none. Its methods may
// be called at any time from any goroutine.
type Redactor struct {
	known atomic.Pointer[secrets] // replaced under adding
	mu    sync.Mutex              // one Add at a time
}

// secrets is immutable.
type secrets struct {
	all      []string // the longest first
	replacer *strings.Replacer
}

// Add makes more secrets known, as they are and as URLs and quoted texts write them. Shorter ones than 4 bytes are passed over. What is known stays
// known: a password that was replaced may still stand in a text.
func (r *Redactor) Add(known ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := &secrets{}
	if now := r.known.Load(); now != nil {
		next.all = slices.Clone(now.all)
	}
	for _, s := range known {
		quoted := strconv.Quote(s)
		next.all = append(next.all, s, url.QueryEscape(s), url.PathEscape(s), url.UserPassword("", s).String()[1:], quoted[1:len(quoted)-1])
	}
	next.all = slices.DeleteFunc(next.all, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(next.all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	next.all = slices.Compact(next.all)
	next.replacer = strings.NewReplacer(pairs(next.all)...) // at one place the first one wins: the longest
	r.known.Store(next)
}

func pairs(all []string) (pairs []string) {
	for _, s := range all {
		pairs = append(pairs, s, redacted)
	}
	return pairs
}

// Text is a text without the secrets. A text that was cut off within one loses the begin of it too.
func (r *Redactor) Text(text string) string {
	if r == nil {
		return text
	}
	known := r.known.Load()
	if known == nil || text == "" {
		return text
	}
	return known.uncut(known.replacer.Replace(text))
}

// uncut takes the begin of a secret off the end of a text.
func (s *secrets) uncut(text string) string {
	body := strings.TrimRight(text, "….")
	for _, secret := range s.all {
		for n := min(len(secret)-1, len(body)); n >= minSecret; n-- {
			if strings.HasSuffix(body, secret[:n]) {
				return body[:len(body)-n] + redacted
			}
		}
	}
	return text
}
