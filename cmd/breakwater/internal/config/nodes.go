package config

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// top reads the whole file.
func (r *reader) top(at place, c *Config) {
	if !r.usable(at) {
		return
	}
	c.DB.Primary.Name = "primary"
	r.expect("Primary", place{path: "primary", node: at.node})
	paths := &readPath{stale: &c.StaleCache}
	fields := []field{
		section("primary", func(r *reader, at place) { r.primary(at, &c.DB) }),
		section("replicas", func(r *reader, at place) { r.replicas(at, &c.DB) }),
		section("settings", func(r *reader, at place) { r.settings(at, &c.DB.Settings) }),
		section("endpoints", paths.endpoints),
		section("degraded_mode", paths.degraded),
		section("consumers", func(r *reader, at place) { r.consumers(at, c) }),
		section("dead_letters", func(r *reader, at place) { r.deadLetters(at, &c.DeadLetters) }),
	}
	given := r.mapping(at, slices.Concat(fields, r.priorities(c), r.daemon(c))...)
	r.given = given
	_, primary := given["primary"]
	replicas, several := given["replicas"]
	c.nodes = primary || several
	if several && !primary {
		r.fault(place{path: "primary", node: replicas.node}, "is missing: replicas need the primary whose WAL they replay; give its dsn or dsn_env")
	}
	_, degraded := given["degraded_mode"]
	if _, endpoints := given["endpoints"]; endpoints || degraded {
		c.ReadPath = &paths.Config
	}
	r.checkPriorities(c, given)
	r.checkListen(c, given)
	if len(given) == 0 && len(r.faults) == 0 {
		r.fault(at, "is empty: write primary and replicas, consumers, or degraded_mode, as docs/configuration.md shows")
	}
}

// expect says where the faults of a node are told whose fields have no place.
func (r *reader) expect(lib string, at place) {
	for _, field := range []string{".Name", ".DSN", ".SampleDSN"} {
		r.places["pgxread: "+lib+field] = at
	}
}

func (r *reader) primary(at place, db *pgxread.Config) {
	var reads credential
	given := r.node(at, "Primary", &db.Primary, reads.fields("reads_dsn")...)
	if given == nil {
		return
	}
	db.PrimaryReadsDSN = r.dsn(at, given, reads, "reads_dsn", "PrimaryReadsDSN.DSN")
}

// MostReplicas is how many a replica.Set takes at once.
const MostReplicas = 64

func (r *reader) replicas(at place, db *pgxread.Config) {
	at.secret = true
	items := r.list(at)
	if len(items) > MostReplicas { // before the connection strings are parsed
		r.fault(at, "has %d nodes: give at most %d", len(items), MostReplicas)
		return
	}
	db.Replicas = make([]pgxread.Node, len(items))
	for i, item := range items {
		lib := fmt.Sprintf("Replicas[%d]", i)
		r.expect(lib, item)
		if !r.usable(item) {
			continue
		}
		given := r.node(item, lib, &db.Replicas[i])
		if _, named := given["name"]; given != nil && !named {
			r.fault(place{item.path + ".name", item.node, true}, "is missing: give each replica a name of its own")
		}
	}
}

// node reads what all nodes have.
func (r *reader) node(at place, lib string, n *pgxread.Node, more ...field) map[string]place {
	at.secret = true
	var pool, sampler credential
	fields := append(pool.fields("dsn"), sampler.fields("sample_dsn")...)
	given := r.mapping(at, append(append(fields, more...), text("name", "pgxread: "+lib+".Name", &n.Name))...)
	if given == nil {
		return nil
	}
	n.DSN = r.dsn(at, given, pool, "dsn", lib+".DSN")
	n.SampleDSN = r.dsn(at, given, sampler, "sample_dsn", lib+".SampleDSN")
	if n.DSN == "" && given["dsn"].node == nil && given["dsn_env"].node == nil {
		r.fault(place{at.path + ".dsn", at.node, true}, "is missing: give dsn, or dsn_env with the name of an environment variable that holds it")
	}
	return given
}

// names finds those that two nodes have.
func (r *reader) names(db *pgxread.Config) {
	seen := map[string]string{db.Primary.Name: "primary"}
	for i, n := range db.Replicas {
		at := r.places[fmt.Sprintf("pgxread: Replicas[%d].Name", i)]
		first, twice := seen[n.Name]
		switch {
		case n.Name == "":
		case twice:
			at.secret = false // a name is shown in errors and metrics
			r.fault(at, "is %s, as is that of %s: give each node a name of its own", show(at), first)
		default:
			seen[n.Name] = fmt.Sprintf("replicas[%d]", i)
		}
	}
}

// A credential is a connection string, or the name of the environment variable that holds it.
type credential struct{ text, env string }

func (c *credential) fields(key string) []field {
	return []field{text(key, "", &c.text), text(key+"_env", "", &c.env)}
}

var (
	variable = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	// shownVariable is a name that is no password by its looks.
	shownVariable = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
)

// dsn is the connection string of a credential; lib is pgxread's name for it.
func (r *reader) dsn(at place, given map[string]place, c credential, key, lib string) string {
	dsn := r.either(at, given, c, key, "pgxread: "+lib, "the server's connection string")
	if parsed, err := pgconn.ParseConfig(dsn); err == nil && dsn != "" {
		r.secret(parsed.Password)
	}
	return dsn
}

// either is the text of a credential, which the file or the environment has.
func (r *reader) either(at place, given map[string]place, c credential, key, lib, what string) string {
	literal, hasLiteral := given[key]
	env, hasEnv := given[key+"_env"]
	switch {
	case hasLiteral && hasEnv:
		r.fault(env, "is given beside %s: keep one of the two", key)
		r.places[lib] = env
	case hasEnv && c.env != "":
		r.places[lib] = env
		return r.environment(env, c.env, what)
	case hasLiteral:
		r.places[lib] = literal
	default:
		r.places[lib] = at.child(key, at.node)
	}
	return c.text
}

// environment is the value of a variable; what is what it must hold.
func (r *reader) environment(at place, name, what string) string {
	value := os.Getenv(name)
	shown := "a variable"
	if shownVariable.MatchString(name) {
		shown = name
	}
	switch {
	case !variable.MatchString(name):
		r.fault(at, "is no name of an environment variable: use letters, digits and underscores%s", literalKey(at))
	case value == "":
		r.fault(at, "names %s, which is empty or not set: set it to %s", shown, what)
	}
	return value
}

// literalKey says where a value itself belongs, if the file may hold it.
func literalKey(at place) string {
	switch {
	case strings.HasSuffix(at.path, "dsn_env"):
		return "; a connection string itself belongs under the key without _env"
	case strings.HasSuffix(at.path, "url_env"):
		return "; a URL itself belongs under the key without _env"
	}
	return ""
}

// settings reads those of the replica set.
func (r *reader) settings(at place, s *replica.Settings) {
	share := func(v float64) bool { return v > 0 && v <= 1 }
	r.mapping(at,
		duration("trip", "replica: Trip", &s.Trip, span{usual: "500ms", never: true}),
		duration("reenter", "replica: Reenter", &s.Reenter, span{least: replica.MinReenter, usual: "200ms"}),
		whole("breaches", "replica: Breaches", &s.Breaches, math.MaxInt32, "3"),
		yes("count_requests", &s.CountRequests),
		duration("max_staleness", "replica: MaxStaleness", &s.MaxStaleness, span{usual: "2.25s", never: true}),
		duration("calm", "replica: Calm", &s.Calm, span{least: 1e6, usual: "1.5s"}),
		duration("fast", "replica: Fast", &s.Fast, span{least: 1e6, usual: "100ms"}),
		duration("primary_interval", "replica: PrimaryInterval", &s.PrimaryInterval, span{least: 1e6, usual: "250ms"}),
		duration("sample_timeout", "replica: SampleTimeout", &s.SampleTimeout, span{usual: "1s"}),
		duration("grace", "replica: Grace", &s.Grace, span{usual: "10s", zero: true}),
		duration("ramp", "replica: Ramp", &s.Ramp, span{usual: "10s", zero: true}),
		number("ramp_from", "replica: RampFrom", &s.RampFrom, share, "a share over 0, at most 1, such as 0.1"),
		whole("failures", "replica: Failures", &s.Failures, math.MaxInt32, "3"),
		section("open", func(r *reader, at place) {
			r.mapping(at,
				duration("base", "breaker: Open.Base", &s.Open.Base, span{usual: "2s"}),
				duration("max", "breaker: Open.Max", &s.Open.Max, span{usual: "1m"}),
				duration("jitter", "breaker: Open.Jitter", &s.Open.Jitter, span{usual: "500ms", zero: true}),
				duration("sticky", "breaker: Open.Sticky", &s.Open.Sticky, span{usual: "10s", zero: true}),
			)
		}),
	)
}
