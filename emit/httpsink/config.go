package httpsink

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/breakwater-go/breakwater/internal/httpwire"
)

// Config says where and how triggers are delivered. Only URL is required.
type Config struct {
	// URL is the consumer's, of scheme http or https, without user and password. Its path and query are not shown.
	URL string
	// Structured sends the whole event as a JSON document. Default: binary mode.
	Structured bool
	// Header is sent with each trigger, a key of an API for one. It must not hold headers that are set here. Default: none.
	Header http.Header
	// Authorization returns the value of the header Authorization, "Bearer …". It is called for each delivery, so that tokens may
	// change; it must heed ctx. Its error is a failure. Default: none is sent.
	Authorization func(ctx context.Context) (string, error)
	// IdempotencyHeader is the name of the header with the trigger's ID (REQ-E8). Default: Idempotency-Key.
	IdempotencyHeader string
	// MaxConns bounds the connections, idle ones too, 1 to 10,000. As many as calls of the lane's bulkhead is right for HTTP/1;
	// HTTP/2 needs one. Default: 16.
	MaxConns int
	// TLS is for https: roots, a client certificate. It is cloned. Default: the system's roots, no certificate.
	TLS *tls.Config
}

const (
	defaultMaxConns          = 16
	maxMaxConns              = 10_000
	defaultIdempotencyHeader = "Idempotency-Key"
)

func (c Config) withDefaults() Config {
	c.Header = c.Header.Clone()
	c.IdempotencyHeader = http.CanonicalHeaderKey(cmp.Or(c.IdempotencyHeader, defaultIdempotencyHeader))
	c.MaxConns = cmp.Or(c.MaxConns, defaultMaxConns)
	c.TLS = c.TLS.Clone()
	return c
}

// check returns every fault of a Config with its defaults, joined, and the URL.
func (c Config) check() (*url.URL, error) {
	u, err := parseURL(c.URL)
	errs := []error{err}
	if c.TLS != nil && u != nil && u.Scheme == "http" {
		errs = append(errs, errors.New("httpsink: TLS is set and URL is of scheme http: use https"))
	}
	if c.MaxConns < 0 || c.MaxConns > maxMaxConns {
		errs = append(errs, fmt.Errorf("httpsink: MaxConns is %d: use 1 to 10000, or 0 for 16", c.MaxConns))
	}
	if !httpwire.IsToken(c.IdempotencyHeader) || isOurs(c.IdempotencyHeader) {
		errs = append(errs, fmt.Errorf("httpsink: IdempotencyHeader is %q: use the name of a header that is not set otherwise", c.IdempotencyHeader))
	}
	for name, values := range c.Header {
		errs = append(errs, c.headerFault(name, values))
	}
	return u, errors.Join(errs...)
}

// parseURL shows nothing of a URL but its scheme: all else may be a secret.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return nil, errors.New("httpsink: URL is empty: use http://… or https://…")
	case err != nil:
		return nil, errors.New("httpsink: URL cannot be parsed: look for spaces, control characters, and % without two hexadecimal digits")
	}
	var errs []error
	if u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, fmt.Errorf("httpsink: URL is of scheme %.20q: use http:// or https://", u.Scheme))
	}
	if u.Hostname() == "" {
		errs = append(errs, errors.New("httpsink: URL has no host"))
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			errs = append(errs, errors.New("httpsink: URL has a port that is not one of 1 to 65535"))
		}
	}
	if u.User != nil {
		errs = append(errs, errors.New("httpsink: URL has a user in it: use the field Authorization"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// headerFault shows no value.
func (c Config) headerFault(name string, values []string) error {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !httpwire.IsToken(name):
		return fmt.Errorf("httpsink: Header has the name %q, which no header can have", name)
	case canonical == "Authorization":
		return errors.New("httpsink: Header has Authorization: use the field Authorization")
	case isOurs(canonical) || canonical == c.IdempotencyHeader:
		return fmt.Errorf("httpsink: Header has %s, which is set for each trigger", name)
	}
	for _, v := range values {
		if !httpwire.IsValue(v) {
			return fmt.Errorf("httpsink: Header has control characters in a value of %s", name)
		}
	}
	return nil
}

// isOurs knows headers that a delivery, or HTTP itself, sets.
func isOurs(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Host", "Connection", "Trailer", "Expect", "Upgrade", "Te":
		return true
	}
	return strings.HasPrefix(strings.ToLower(name), "ce-")
}
