package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
)

// A knock is a connection to a consumer's host, on which nothing is sent.
type knock struct {
	host string // as it is shown
	said string // what was found
	err  error
}

// knockAll tries the hosts of all consumers at once, until ctx ends.
func knockAll(ctx context.Context, c *config.Config) []*knock {
	all := make([]*knock, len(c.Consumers))
	var wg sync.WaitGroup
	for i := range all {
		all[i] = &knock{}
		wg.Go(func() { all[i].try(ctx, c.Consumers[i].Sink) })
	}
	wg.Wait()
	return all
}

func (k *knock) try(ctx context.Context, s config.Sink) {
	address, secure := s.Host()
	k.host = address
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		k.err = errors.New("leads to no server: " + knockReason(ctx, err))
		return
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	k.said = address + " takes connections"
	if !secure {
		return
	}
	with, err := s.ClientTLS()
	if err != nil {
		k.err = err
		return
	}
	if with == nil {
		with = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	with.ServerName, _, _ = net.SplitHostPort(address)
	over := tls.Client(conn, with)
	if err := over.HandshakeContext(ctx); err != nil {
		k.err = errors.New("leads to a server with which TLS cannot be agreed on: " + knockReason(ctx, err))
		return
	}
	k.said += ", " + tls.VersionName(over.ConnectionState().Version)
}

// knockReason is the cause of an error, with what to do; it names nothing but the host.
func knockReason(ctx context.Context, err error) string {
	if text, known := networkReason(ctx, err); known {
		return text
	}
	if _, fromTLS := errors.AsType[*tls.CertificateVerificationError](err); fromTLS {
		return "its certificate is not trusted; name the authority under tls.ca_file, or mend the host"
	}
	return "see that it speaks TLS, and wants no other certificate than tls.cert_file"
}

// tellConsumers says what was found.
func tellConsumers(c *config.Config, all []*knock, out, errOut io.Writer) (failed error) {
	for i, k := range all {
		if k.err != nil {
			fmt.Fprintln(errOut, c.ConsumerFault(i, strings.TrimPrefix(k.err.Error(), "config: ")))
			failed = errFailed
			continue
		}
		fmt.Fprintf(out, "%s: %s\n", c.Consumers[i].Lane.Name, k.said)
	}
	return failed
}
