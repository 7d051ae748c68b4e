package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/breakwater-go/breakwater/emit"
)

const (
	// mostLetters is how many letters are listed at once at most, or with their payloads; and by default.
	mostLetters, mostPayloads, someLetters = 1000, 100, 100
	// maxPayload is how much of a payload is shown, in bytes.
	maxPayload = 64 << 10
	// listTimeout is how long a store may take.
	listTimeout = 10 * time.Second
)

// Letters is a page of dead letters.
type Letters struct {
	Letters []Letter `json:"letters"`
	Next    *uint64  `json:"next"` // what to ask ?after= with for those that follow; null: there are none
}

// Letter is a dead letter as it is shown to who has the credential: Key, attributes and errors are the emitter's and the consumer's texts.
type Letter struct {
	Seq         uint64            `json:"seq"`
	Priority    string            `json:"priority"`
	ID          string            `json:"id"`
	Type        string            `json:"type"`
	Source      string            `json:"source"`
	Subject     string            `json:"subject,omitempty"`
	Time        time.Time         `json:"time"`
	Key         string            `json:"key,omitempty"`
	ContentType string            `json:"content_type"`
	Attributes  map[string]string `json:"attributes,omitempty"`
	Reason      emit.Reason       `json:"reason"`
	StoredAt    time.Time         `json:"stored_at"`
	AgeMS       float64           `json:"age_ms"`
	Attempts    int               `json:"attempts"`
	Last        []LetterAttempt   `json:"last_attempts"`
	Parked      bool              `json:"parked"`
	NotBefore   *time.Time        `json:"not_before"` // null: at once
	Bytes       int               `json:"bytes"`      // of the payload
	Payload     *string           `json:"payload,omitempty"`
	Encoded     []byte            `json:"payload_base64,omitempty"` // in its place where it is no text
	Cut         bool              `json:"payload_cut,omitempty"`    // there is more than is shown
}

// LetterAttempt is one try to deliver.
type LetterAttempt struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// listing is what is asked for.
type listing struct {
	consumer string
	filter   LetterFilter
	after    uint64
	limit    int
	payload  bool
}

// letters is GET /api/v1/dead-letters.
func (s *Server) letters(w http.ResponseWriter, r *http.Request) error {
	l, err := parseListing(r.URL.Query())
	if err != nil {
		return err
	}
	parts := s.conf.Source.Parts()
	router, filter, err := l.filter.of(parts, l.consumer)
	if err != nil {
		return err
	}
	filter.After = l.after
	ctx, cancel := context.WithTimeout(r.Context(), listTimeout)
	defer cancel()
	page := Letters{Letters: []Letter{}}
	settings := router.Config()
	for found, err := range router.Letters(ctx, l.consumer, filter) {
		if err != nil {
			return err
		}
		if len(page.Letters) == l.limit {
			page.Next = &page.Letters[l.limit-1].Seq
			break
		}
		page.Letters = append(page.Letters, s.letter(&found, settings.Priorities, l.payload))
	}
	answer(w, http.StatusOK, page)
	return nil
}

// parseListing reads the query, with every fault of it.
func parseListing(q url.Values) (l listing, err error) {
	known := []string{"consumer", "priority", "type", "reason", "key", "parked", "after", "limit", "payload"}
	var faults []FieldFault
	note := func(field, mend string) { faults = append(faults, FieldFault{field, quote(q.Get(field)), mend}) }
	for name := range q {
		if !slices.Contains(known, name) {
			note(name, "unknown: use consumer, priority, type, reason, key, parked, after, limit or payload")
		}
	}
	l.consumer = q.Get("consumer")
	l.filter = LetterFilter{Priorities: q["priority"], Types: q["type"], Reasons: q["reason"], Key: q.Get("key")}
	if parked := q.Get("parked"); parked != "" {
		b, err := strconv.ParseBool(parked)
		if err != nil {
			note("parked", "use true or false")
		}
		l.filter.Parked = &b
	}
	if after := q.Get("after"); after != "" {
		if l.after, err = strconv.ParseUint(after, 10, 64); err != nil {
			note("after", "use the seq of a letter")
		}
	}
	if payload := q.Get("payload"); payload != "" {
		if l.payload, err = strconv.ParseBool(payload); err != nil {
			note("payload", "use 1 or 0")
		}
	}
	most := mostLetters
	if l.payload {
		most = mostPayloads
	}
	l.limit = someLetters
	if limit := q.Get("limit"); limit != "" {
		if l.limit, err = strconv.Atoi(limit); err != nil || l.limit < 1 || l.limit > most {
			note("limit", "use a whole number from 1 to "+strconv.Itoa(most))
		}
	}
	slices.SortFunc(faults, func(a, b FieldFault) int { return slices.Index(known, a.Field) - slices.Index(known, b.Field) })
	return l, invalid(faults)
}

func (s *Server) letter(l *emit.Letter, priorities []string, payload bool) Letter {
	t := &l.Trigger
	out := Letter{
		Seq: l.Seq, Priority: strconv.Itoa(l.Priority), ID: t.ID, Type: t.Type, Source: t.Source, Subject: t.Subject, Time: t.Time.UTC(), Key: t.Key,
		ContentType: t.ContentType, Attributes: t.Attributes, Reason: l.Reason, StoredAt: l.StoredAt, AgeMS: ms(max(time.Since(l.StoredAt), 0)),
		Attempts: l.Attempts, Last: []LetterAttempt{}, Parked: l.Parked, Bytes: len(t.Data),
	}
	if l.Priority < len(priorities) {
		out.Priority = priorities[l.Priority]
	}
	for _, a := range l.Last {
		out.Last = append(out.Last, LetterAttempt{a.At, s.conf.Redact.Text(a.Err)})
	}
	if !l.NotBefore.IsZero() {
		out.NotBefore = &l.NotBefore
	}
	if payload {
		out.show(t.Data, s.conf.Redact)
	}
	return out
}

// show adds the payload, as text where it is one.
func (l *Letter) show(data []byte, redact *Redactor) {
	l.Cut = len(data) > maxPayload
	data = data[:min(len(data), maxPayload)]
	whole := data
	for l.Cut && len(whole) > len(data)-utf8.UTFMax && !utf8.Valid(whole) { // a cut may have split a character
		whole = whole[:len(whole)-1]
	}
	if utf8.Valid(whole) {
		l.Payload = new(redact.Text(string(whole)))
	} else {
		l.Encoded = slices.Clone(data)
	}
}
