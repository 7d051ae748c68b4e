package proxycheck

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// Handler answers GET, HEAD and OPTIONS of /replica/{name}: 200 if the replica may take reads, else 503, with one line of text and the headers
// Breakwater-Condition, Breakwater-Share (0 to 1) and, where it is bounded, Breakwater-Staleness (seconds). max_staleness=2s in the URL asks by the read's own bound; 0 or no
// duration is 400, as is a query that cannot be read. A name that no replica has is 404, as all are where set returns nil. redact takes secrets out of the reason,
// which may be an operator's words; nil: none. Mount it by a pattern with {name}, for every method.
func Handler(set func() *replica.Set, redact func(string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		status, text := judge(h, set(), req)
		text = oneLine(redacted(redact, text)) + "\n"
		h.Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(status)
		if req.Method != http.MethodHead {
			_, _ = io.WriteString(w, text) // who asked is gone
		}
	})
}

func judge(h http.Header, set *replica.Set, req *http.Request) (status int, text string) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		return http.StatusMethodNotAllowed, "ask by GET, HEAD or OPTIONS"
	}
	bound, err := boundOf(req)
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	name := req.PathValue("name")
	verdict, known := look(set, name, bound)
	if !known {
		return http.StatusNotFound, unknown(name)
	}
	h.Set("Breakwater-Condition", verdict.Condition.String())
	h.Set("Breakwater-Share", strconv.FormatFloat(verdict.Share, 'f', 2, 64))
	if verdict.Hi != replica.Never {
		h.Set("Breakwater-Staleness", strconv.FormatFloat(verdict.Hi.Seconds(), 'f', 3, 64))
	}
	if verdict.Condition == replica.Fit {
		return http.StatusOK, fmt.Sprintf("%s may take reads: at most %v stale, %d %% of its share", name, verdict.Hi.Round(time.Millisecond), percent(verdict.Share))
	}
	if verdict.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(verdict.RetryAfter.Seconds())+1))
	}
	return http.StatusServiceUnavailable, fmt.Sprintf("%s takes no reads: %v: %s", name, verdict.Condition, why(set, name, &verdict))
}

// boundOf is the read's own bound, 0 for that of the set.
func boundOf(req *http.Request) (time.Duration, error) {
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil { // what was left out of it may be the bound
		return 0, errors.New("query cannot be read: give ?max_staleness=2s, or nothing")
	}
	text := query.Get("max_staleness")
	if text == "" {
		return 0, nil
	}
	bound, err := time.ParseDuration(text)
	if err != nil || bound <= 0 {
		return 0, fmt.Errorf("max_staleness is %.40q: give a time above 0 with its unit, 2s or 500ms", text)
	}
	return bound, nil
}

func look(set *replica.Set, name string, bound time.Duration) (replica.Verdict, bool) {
	if set == nil {
		return replica.Verdict{}, false
	}
	return set.Judge(name, replica.Requirement{MaxStaleness: bound})
}

func unknown(name string) string {
	return fmt.Sprintf("no replica is named %.40q: use a name of the configuration", name)
}

// percent is a share as a proxy's weight: never 0, which would take the server out.
func percent(share float64) int { return min(max(int(share*100+0.5), 1), 100) }

// redacted is a text that may quote a server, without the secrets that it was sent.
func redacted(redact func(string) string, text string) string {
	if redact == nil {
		return text
	}
	return redact(text)
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
