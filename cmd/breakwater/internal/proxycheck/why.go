package proxycheck

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// why says why a replica takes no reads, to who may have shown no credential. What a server or its driver said is not quoted, since that names users,
// databases and addresses (REQ-O4).
func why(set *replica.Set, name string, v *replica.Verdict) string {
	switch v.Condition {
	case replica.Unreachable:
		return failure(v.Err)
	case replica.NoRights: // its words name the role
		return "its sampling role lacks pg_monitor"
	case replica.Open:
		if b := set.Breaker(name); b != nil {
			return opened(b.Stats())
		}
		return "breaker open" // it was removed just now
	default:
		return v.Detail
	}
}

// opened is a breaker's state and reason. Only an operator's words are quoted: those of a rule hold the last error.
func opened(b breaker.Stats) string {
	if b.Reason.Rule != breaker.RuleForced {
		b.Reason.Detail = ""
	}
	return fmt.Sprintf("breaker %v: %v", b.State, b.Reason)
}

// failure is the kind of an error of a sample. What the server answered counts first, whatever else failed on the way to it.
func failure(err error) string {
	if code := postgres.SQLState(err); code != "" {
		return answered(code)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "its name could not be resolved"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate was not accepted"
	}
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			return k.text
		}
	}
	if e, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && e.Timeout() {
		return "timed out"
	}
	return "the sample failed"
}

var kinds = []struct {
	is   error
	text string
}{
	{syscall.ECONNREFUSED, "connection refused"},
	{syscall.EHOSTUNREACH, "no route to it"},
	{syscall.ENETUNREACH, "no route to it"},
	{syscall.ECONNRESET, "connection lost"},
	{syscall.EPIPE, "connection lost"},
	{io.EOF, "connection lost"},
	{io.ErrUnexpectedEOF, "connection lost"},
	{net.ErrClosed, "connection lost"},
}

// answered is what an SQLSTATE says, in words where it is known, always with the code.
func answered(code string) string {
	text := "it answered with an error"
	switch {
	case strings.HasPrefix(code, "28"):
		text = "authentication failed"
	case code == "42501":
		text = "its role lacks a right"
	case code == "3D000":
		text = "the database does not exist"
	case code == "53300":
		text = "too many connections"
	case code == "57014":
		text = "the query was cancelled"
	case strings.HasPrefix(code, "57P"):
		text = "it is starting up or shutting down"
	}
	return text + " (SQLSTATE " + code + ")"
}
