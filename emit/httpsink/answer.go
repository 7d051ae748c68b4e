package httpsink

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// MaxRetryAfter bounds what a consumer can ask for by Retry-After.
const MaxRetryAfter = time.Hour

const (
	maxHeader  = 64 << 10 // bytes of an answer's headers
	maxBody    = 64 << 10 // bytes of an answer's body that are read to keep the connection
	maxExcerpt = 256      // bytes of an answer's body that are kept
	minSecret  = 4        // bytes: shorter values are no secrets, and would blot out half of any text
	minSegment = 12       // bytes: shorter segments of a path are words
	blot       = "(hidden)"
)

// A StatusError is an answer other than 2xx. It matches [emit.ErrRejected] for a status 4xx but 408 and 429.
type StatusError struct {
	// Status is that of the answer.
	Status int
	// Body is the beginning of what the consumer said, at most 256 bytes of it, without secrets of the Config. It is the consumer's text: quote it.
	Body string

	host string // scheme and host
}

// Error names the host, the status and, quoted, the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("httpsink: %s answered %d %s", e.host, e.Status, http.StatusText(e.Status))
	if e.Body == "" {
		return text
	}
	return fmt.Sprintf("%s: %q", text, e.Body)
}

// Is matches emit.ErrRejected if the consumer will not take the trigger.
func (e *StatusError) Is(target error) bool {
	return target == emit.ErrRejected && e.Status/100 == 4 &&
		e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

// A sendError is that of a request without an answer. Its text may quote what came instead of one.
type sendError struct {
	text  string
	cause error
}

// Error is bounded and holds no secret.
func (e *sendError) Error() string { return e.text }

// Unwrap returns the error of net/http.
func (e *sendError) Unwrap() error { return e.cause }

// secretsOf are the texts that no error may show.
func secretsOf(c Config, u *url.URL) []string {
	secrets := []string{u.RawQuery}
	for _, path := range []string{u.EscapedPath(), u.Path} {
		secrets = append(secrets, path)
		for segment := range strings.SplitSeq(path, "/") {
			if len(segment) >= minSegment {
				secrets = append(secrets, segment)
			}
		}
	}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		_, value, _ := strings.Cut(pair, "=")
		secrets = append(secrets, value)
	}
	for _, values := range c.Header {
		for _, value := range values {
			secrets = append(secrets, headerParts(value)...)
		}
	}
	return secrets
}

// headerParts are a value of a header and what may be told of it alone: what a header Authorization has, and values of cookies.
func headerParts(value string) []string {
	parts := credentials(value)
	for pair := range strings.SplitSeq(value, ";") {
		if _, part, _ := strings.Cut(pair, "="); len(part) >= minSegment {
			parts = append(parts, part)
		}
	}
	return parts
}

// credentials are the parts of a header Authorization: all of it, what follows the scheme, and user and password.
func credentials(authorization string) []string {
	_, token, _ := strings.Cut(authorization, " ")
	plain, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return []string{authorization, token}
	}
	_, password, _ := strings.Cut(string(plain), ":")
	return []string{authorization, token, string(plain), password}
}

// tidy leaves out what is too short, and sorts the longest first.
func tidy(secrets []string) []string {
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return secrets
}

// excerpt is the beginning of a body without secrets. It reads as much more as a secret at its end may need.
func excerpt(body io.Reader, secrets []string) string {
	longest := 0
	if len(secrets) > 0 {
		longest = len(secrets[0])
	}
	text, _ := io.ReadAll(io.LimitReader(body, int64(maxExcerpt+longest))) // what came before an error is kept
	return strings.ToValidUTF8(blotOut(string(text), secrets), "�")
}

// blotOut returns the first maxExcerpt bytes of text with each secret that begins in them replaced.
func blotOut(text string, secrets []string) string {
	var b strings.Builder
	for i := 0; i < min(len(text), maxExcerpt); {
		if n := secretAt(text[i:], secrets); n > 0 {
			b.WriteString(blot)
			i += n
			continue
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}

// secretAt is the length of the secret that text begins with, 0 for none.
func secretAt(text string, secrets []string) int {
	for _, s := range secrets {
		if strings.HasPrefix(text, s) {
			return len(s)
		}
	}
	return 0
}
