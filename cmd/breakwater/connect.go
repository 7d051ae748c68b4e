package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
	"github.com/breakwater-go/breakwater/pgxread"
)

const (
	// connectWithin bounds what --connect does, at all nodes at once.
	connectWithin = 5 * time.Second
	// hangUp bounds the goodbye to a server that has answered.
	hangUp = 500 * time.Millisecond
)

// seenSQL works on every server that could be at the other end, also on one that is too old.
const seenSQL = `SELECT pg_catalog.current_setting('server_version'), pg_catalog.current_setting('server_version_num')::int,
 pg_catalog.pg_is_in_recovery(), current_user::text, pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'),
 (SELECT system_identifier::text FROM pg_catalog.pg_control_system())`

// oldestServer is PostgreSQL 13.
const oldestServer = 130000

// seen is what one connection found.
type seen struct {
	version    string
	number     int
	inRecovery bool
	role       string
	rights     bool // of pg_monitor, as far as samplers need them
	system     string
}

// A dial is one connection string of a node, and what was found behind it.
type dial struct {
	label   string // as it is shown
	field   string // in pgxread.Config
	dsn     string
	replica bool // what it must lead to
	samples bool // its role is the sampler's

	seen seen
	err  error
}

// dials are all connection strings of a file, the primary's first.
func dials(db pgxread.Config) []*dial {
	all := []*dial{{label: db.Primary.Name, field: "Primary.DSN", dsn: db.Primary.DSN, samples: db.Primary.SampleDSN == ""}}
	add := func(d dial) {
		if d.dsn != "" {
			all = append(all, &d)
		}
	}
	add(dial{label: db.Primary.Name + " for samples", field: "Primary.SampleDSN", dsn: db.Primary.SampleDSN, samples: true})
	add(dial{label: db.Primary.Name + " for reads", field: "PrimaryReadsDSN.DSN", dsn: db.PrimaryReadsDSN})
	for i, n := range db.Replicas {
		field := fmt.Sprintf("Replicas[%d]", i)
		add(dial{label: n.Name, field: field + ".DSN", dsn: n.DSN, replica: true, samples: n.SampleDSN == ""})
		add(dial{label: n.Name + " for samples", field: field + ".SampleDSN", dsn: n.SampleDSN, replica: true, samples: true})
	}
	return all
}

// checkNodes looks behind all connection strings at once, for at most within, and tells what is there.
func checkNodes(ctx context.Context, c *config.Config, within time.Duration, out, errOut io.Writer) error {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	all := dials(c.DB)
	var wg sync.WaitGroup
	for _, d := range all {
		wg.Go(func() { d.seen, d.err = see(bounded, d.dsn) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return errInterrupted
	}
	var failed error
	for _, d := range all {
		if d.err == nil {
			fmt.Fprintf(out, "%s: %s\n", d.label, d.seen)
		}
		for _, text := range d.faults(all[0].seen.system) {
			fmt.Fprintln(errOut, c.Fault(d.field, text))
			failed = errFailed
		}
	}
	return failed
}

// String is what was found, in words.
func (s seen) String() string {
	recovery, rights := "not in recovery", "without"
	if s.inRecovery {
		recovery = "in recovery"
	}
	if s.rights {
		rights = "with"
	}
	return fmt.Sprintf("PostgreSQL %s, %s, role %q %s the rights of pg_monitor", s.version, recovery, s.role, rights)
}

// faults compares what was found with what must be; system is the primary's cluster, "" where it
// did not answer.
func (d *dial) faults(system string) (texts []string) {
	if d.err != nil {
		return []string{d.err.Error()}
	}
	fault := func(bad bool, text string) {
		if bad {
			texts = append(texts, text)
		}
	}
	s := d.seen
	fault(s.number < oldestServer, "leads to PostgreSQL "+s.version+": use PostgreSQL 13 or newer")
	fault(d.replica && !s.inRecovery, "leads to a server that is not in recovery: name a replica")
	fault(!d.replica && s.inRecovery, "leads to a server that is in recovery: name the primary")
	fault(system != "" && s.system != system, "leads to another cluster than the primary's dsn: name a server of the same one")
	fault(d.replica && d.samples && !s.rights, fmt.Sprintf("has a role that may not see how a replica receives: on the primary, GRANT pg_monitor TO %q", s.role))
	return texts
}

// see asks one server. Its error holds nothing of the connection string.
func see(ctx context.Context, dsn string) (s seen, err error) {
	c, err := pgxpool.ParseConfig(dsn) // which knows pool_max_conns and the like
	if err != nil {
		return s, errors.New("does not parse: mend the connection string") // it did a moment ago
	}
	conn, err := pgx.ConnectConfig(ctx, c.ConnConfig)
	if err != nil {
		return s, errors.New("leads to no server: " + reason(ctx, err, c.ConnConfig.Password))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangUp)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	row := conn.QueryRow(ctx, seenSQL, pgx.QueryExecModeExec) // no statement is left prepared in a pooler's session
	if err := row.Scan(&s.version, &s.number, &s.inRecovery, &s.role, &s.rights, &s.system); err != nil {
		return s, errors.New("leads to a server that does not answer as it must: " + reason(ctx, err, c.ConnConfig.Password))
	}
	s.version, _, _ = strings.Cut(s.version, " ") // the packager's name follows
	return s, nil
}

// reason is the cause of an error, with what to do. What pgx itself says names user, host and database.
func reason(ctx context.Context, err error, password string) string {
	if refused, fromServer := errors.AsType[*pgconn.PgError](err); fromServer {
		said := refused.Message
		if password != "" {
			said = strings.ReplaceAll(said, password, "…")
		}
		return fmt.Sprintf("it says %q (SQLSTATE %s); mend the role, its password, the database or pg_hba.conf", said, refused.Code)
	}
	text, known := networkReason(ctx, err)
	switch {
	case known:
		return text
	case strings.Contains(err.Error(), "tls") || strings.Contains(err.Error(), "TLS") || strings.Contains(err.Error(), "x509"):
		return "TLS could not be agreed on; mend sslmode or its certificates"
	}
	return "the connection broke; see the server's log"
}

// networkReason is what kept a connection from being made, with what to do; not known: something else did. It names nothing.
func networkReason(ctx context.Context, err error) (text string, known bool) {
	number, fromSystem := errors.AsType[syscall.Errno](err)
	_, fromDNS := errors.AsType[*net.DNSError](err)
	switch {
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return "no answer in time; see that host, port and firewall are right and the server runs", true
	case fromDNS:
		return "its host is not found; mend the name", true
	case fromSystem:
		return number.Error() + "; see that host and port are right and the server runs", true
	}
	return "", false
}
