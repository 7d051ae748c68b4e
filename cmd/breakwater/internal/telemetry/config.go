package telemetry

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Config says where spans go. Endpoint is required.
type Config struct {
	// Endpoint is the collector's for OTLP over HTTP: "host:port", or a URL, whose path is /v1/traces where it has none.
	Endpoint string
	// Headers go with each request, a credential for one: "name=value,name=value", values in URL encoding. They are secret: they come
	// from an environment variable. Default: none.
	Headers string
	// SampleRatio is the share of traces that begin here and are kept, above 0 and up to 1. Negative: none. A trace that began elsewhere is kept as
	// its caller says, and changes of a breaker's state always. Default: 0.1.
	SampleRatio float64
	// Insecure allows a connection without TLS. Default: false.
	Insecure bool
	// Timeout bounds the sending of one batch, its retries included. Default: 10s.
	Timeout time.Duration
	// Version and Instance are service.version and service.instance.id of the resource, whose service.name is breakwater unless the environment
	// variable OTEL_SERVICE_NAME says otherwise. Default: none.
	Version, Instance string
	// Failed is told of spans that could not be sent, once a minute at most. Default: nobody is.
	Failed func(error)
}

const (
	defaultSampleRatio = 0.1
	defaultTimeout     = 10 * time.Second
	defaultPath        = "/v1/traces"
)

func (c Config) withDefaults() Config {
	if c.SampleRatio == 0 {
		c.SampleRatio = defaultSampleRatio
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	return c
}

// Check returns every fault of the Config, joined. None holds a header.
func (c Config) Check() error {
	_, err := c.endpoint()
	errs := []error{err}
	if _, err := c.headers(); err != nil {
		errs = append(errs, err)
	}
	if !(c.SampleRatio <= 1) { // NaN is a fault too
		errs = append(errs, fmt.Errorf("telemetry: SampleRatio is %v: use up to 1, or a negative number for none", c.SampleRatio))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("telemetry: Timeout is %v: use a positive duration, or 0 for %v", c.Timeout, defaultTimeout))
	}
	return errors.Join(errs...)
}

// endpoint is the URL to send to. An error names no more of it than its scheme: what else is in it may be a secret.
func (c Config) endpoint() (*url.URL, error) {
	text := c.Endpoint
	if !strings.Contains(text, "://") {
		text = "https://" + text
		if c.Insecure {
			text = "http://" + c.Endpoint
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, errors.New("telemetry: Endpoint is no host and port, and no URL: use one like otel-collector:4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("telemetry: Endpoint has a user, a query or a fragment: use scheme, host, port and path; credentials go into Headers")
	case u.Scheme == "http" && !c.Insecure:
		return nil, errors.New("telemetry: Endpoint is an http:// URL: use https://, or set Insecure to have spans and headers sent in clear")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("telemetry: Endpoint has the scheme %q: use https or http", u.Scheme)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = defaultPath
	}
	return u, nil
}

// headers are those to send.
func (c Config) headers() (map[string]string, error) {
	headers := map[string]string{}
	if c.Headers == "" {
		return headers, nil
	}
	for i, pair := range strings.Split(c.Headers, ",") {
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || err != nil || name == "" {
			return nil, fmt.Errorf("telemetry: Headers has a pair, number %d, that cannot be read: use name=value,name=value", i+1)
		}
		headers[name] = value
	}
	return headers, nil
}

// Secrets are the texts of the Config that nothing may show.
func (c Config) Secrets() []string {
	secrets := []string{c.Headers}
	headers, _ := c.headers() // of what cannot be read the whole is a secret
	for _, value := range headers {
		secrets = append(secrets, value)
		if _, token, ok := strings.Cut(value, " "); ok { // "Bearer …"
			secrets = append(secrets, token)
		}
	}
	return secrets
}
