package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

func (w *world) letters(h http.Handler, query string) Letters {
	w.t.Helper()
	answer, body := ask(w.t, h, "GET", "/api/v1/dead-letters?"+query, "")
	if answer.StatusCode != http.StatusOK {
		w.t.Fatalf("got %d %s", answer.StatusCode, body)
	}
	return parsed[Letters](w.t, body)
}

// A letter by its seq is that one, also among others that are alike.
func TestOneLetter(t *testing.T) {
	w := newWorld(t)
	h := w.serve(nil).Handler()
	for range 3 {
		w.park(emit.Trigger{Type: "order", Key: "k"})
	}
	all := w.letters(h, "consumer=ledger").Letters
	if len(all) != 3 {
		t.Fatalf("got %d letters, want 3", len(all))
	}
	second := all[1].Seq
	_, body := ask(t, h, "DELETE", "/api/v1/dead-letters", fmt.Sprintf(`{"consumer":"ledger","reason":"test","filter":{"seq":%d}}`, second))
	if !strings.Contains(body, `"letters":1`) {
		t.Fatalf("got %s", body)
	}
	if answer, body := ask(t, h, "DELETE", "/api/v1/dead-letters", fmt.Sprintf(`{"consumer":"ledger","reason":"test","filter":{"seq":%d}}`, second)); answer.StatusCode != http.StatusNotFound {
		t.Fatalf("it is gone, and the next one is another: got %s", body)
	}
	left := w.letters(h, "consumer=ledger").Letters
	if len(left) != 2 || left[0].Seq != all[0].Seq || left[1].Seq != all[2].Seq {
		t.Errorf("got %+v, want the first and the third", left)
	}
}

// A replay answers with how many there are to try, and goes on after its caller.
func TestReplayGoesOn(t *testing.T) {
	w := newWorld(t)
	h := w.serve(nil).Handler()
	for range 3 {
		w.park(emit.Trigger{Type: "order"})
	}
	w.fails(nil)
	_, body := ask(t, h, "POST", "/api/v1/dead-letters/replay", `{"consumer":"ledger","filter":{"parked":true}}`)
	if !strings.Contains(body, `"letters":3`) {
		t.Fatalf("got %s", body)
	}
	w.std.replays.running.Wait()
	if got := w.letters(h, "consumer=ledger").Letters; len(got) != 0 {
		t.Errorf("got %d letters left, want 0", len(got))
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t)
	h := w.serve(nil).Handler()
	for range 3 {
		w.park(emit.Trigger{Type: "order"})
	}
	first := w.letters(h, "consumer=ledger&limit=2")
	if len(first.Letters) != 2 || first.Next == nil {
		t.Fatalf("got %+v, want two and what follows", first)
	}
	second := w.letters(h, fmt.Sprintf("consumer=ledger&limit=2&after=%d", *first.Next))
	if len(second.Letters) != 1 || second.Next != nil {
		t.Errorf("got %+v, want the last one", second)
	}
}

// A payload is shown in part, as text where it is one, and only if it is asked for.
func TestPayloads(t *testing.T) {
	text := strings.Repeat("é", maxPayload) // cut in the middle of a character
	for _, c := range []struct {
		name, data string
		payload    string
		encoded    int
		cut        bool
	}{
		{"text", `{"a":1}`, `{"a":1}`, 0, false},
		{"with a secret", "p " + secret, "p …", 0, false},
		{"long", text, text[:maxPayload], 0, true},
		{"cut in a character", "a" + text, "a" + text[:maxPayload-2], 0, true},
		{"no text", "\xff\xfe", "", 2, false},
		{"long, no text", strings.Repeat("\xff", maxPayload+1), "", maxPayload, true},
	} {
		var l Letter
		redact := &Redactor{}
		redact.Add(secret)
		l.show([]byte(c.data), redact)
		got := ""
		if l.Payload != nil {
			got = *l.Payload
		}
		if got != c.payload || len(l.Encoded) != c.encoded || l.Cut != c.cut {
			t.Errorf("%s: got %d bytes of text, %d encoded, cut %t", c.name, len(got), len(l.Encoded), l.Cut)
		}
	}
}

// RFC 3339 is read with an offset of 24 hours, and cannot be written with one: a letter with such a time is listed in UTC.
func TestLetterOfAnyTime(t *testing.T) {
	w := newWorld(t)
	h := w.serve(nil).Handler()
	at, err := time.Parse(time.RFC3339, "2026-01-02T00:00:00+24:00")
	if err != nil {
		t.Fatal(err)
	}
	w.park(emit.Trigger{Type: "order", Time: at})
	if got := w.letters(h, "consumer=ledger").Letters; len(got) != 1 || !got[0].Time.Equal(at) {
		t.Errorf("got %+v, want one of %v", got, at)
	}
}

// A filter that is written and selects nothing by itself is refused: as one that is left out it would select every letter.
func TestFilterThatSelectsAny(t *testing.T) {
	w := newWorld(t)
	h := w.serve(nil).Handler()
	w.park(emit.Trigger{Type: "order", Key: "k"})
	for _, one := range []string{
		`"seq":0`, `"seq":null`, `"key":""`, `"key":null`, `"types":[]`, `"types":null`, `"priorities":[]`, `"priorities":null`, `"reasons":[]`, `"reasons":null`, `"parked":null`,
	} {
		field, _, _ := strings.Cut(strings.TrimPrefix(one, `"`), `"`)
		for method, path := range map[string]string{"DELETE": "/api/v1/dead-letters", "POST": "/api/v1/dead-letters/replay"} {
			reason := map[string]string{"DELETE": `"reason":"test",`}[method]
			answer, body := ask(t, h, method, path, `{"consumer":"ledger",`+reason+`"filter":{`+one+`}}`)
			if answer.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"filter.`+field+`"`) {
				t.Errorf("%s %s: got %d %s, want 400 that names it", method, one, answer.StatusCode, body)
			}
		}
	}
	if got := w.letters(h, "consumer=ledger").Letters; len(got) != 1 {
		t.Errorf("got %d letters left, want 1", len(got))
	}
}
