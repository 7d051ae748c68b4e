package pgxread

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// parsePool parses the DSN of a pool. Its error holds nothing of the DSN: what pgx
// says of a string that it cannot parse may hold a password in pieces.
func parsePool(field, dsn string) (*pgxpool.Config, error) {
	if dsn == "" {
		return nil, fmt.Errorf("pgxread: %s is empty: give the server's connection string", field)
	}
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, dsnError(field, err)
	}
	return c, strayPassword(field, dsn, c.ConnConfig)
}

func parseConn(field, dsn string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, dsnError(field, err)
	}
	return c, strayPassword(field, dsn, c)
}

// strayPassword finds the URL whose password holds a slash or question mark that is
// not percent-encoded: it parses, with a piece of the password as its database, host or
// parameter, and that piece would be shown by every error that names the database.
func strayPassword(field, dsn string, c *pgx.ConnConfig) error {
	if !strings.Contains(dsn, "://") {
		return nil
	}
	stray := strings.Contains(c.Host, "@") || strings.Contains(c.Database, "@")
	for name := range c.RuntimeParams {
		stray = stray || strings.Contains(name, "@")
	}
	if !stray {
		return nil
	}
	return fmt.Errorf("pgxread: %s has an @ in the wrong place: percent-encode / ? # @ and : in its password", field)
}

func dsnError(field string, err error) error {
	return fmt.Errorf("pgxread: %s does not parse: %s (the connection string itself is not shown: it may hold a password)", field, dsnFault(err))
}

// dsnFault says what is wrong in words of our own choice.
func dsnFault(err error) string {
	if _, ok := errors.AsType[*pgconn.ParseConfigError](err); !ok {
		return "it is not a connection string"
	}
	// The text quotes the string first, then come pgx's message and its cause.
	text := err.Error()
	for _, f := range dsnFaults() {
		if strings.Contains(text, "`: "+f.sign) {
			return f.words
		}
	}
	return "it is neither a URL (postgres://user:password@host:5432/database) nor a list of keyword=value pairs"
}

type dsnSign struct{ sign, words string }

// dsnFaults maps the beginnings of pgx's messages, which are the same for every string, to words.
func dsnFaults() []dsnSign {
	return []dsnSign{
		{"invalid port", "its port is not a number from 1 to 65535; a password in a URL needs / ? # @ and : percent-encoded"},
		{"could not match", "it has another number of ports than of hosts"},
		{"failed to configure TLS", "its sslmode is unknown or its TLS settings cannot be used"},
		{"invalid connect_timeout", "its connect_timeout is not a number of seconds"},
		{"unknown target_session_attrs", "its target_session_attrs is unknown"},
		{"cannot parse pool_", "one of its pool_ settings is not of its kind"},
		{"pool_max_conns too small", "its pool_max_conns is less than 1"},
		{"failed to read service", "its service cannot be read"},
		{"failed to parse as URL", "it is not a URL of the form postgres://user:password@host:5432/database"},
		{"failed to parse as keyword/value", "it is not a list of keyword=value pairs"},
	}
}
