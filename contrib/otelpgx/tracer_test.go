package otelpgx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/contrib/otelpgx"
	"github.com/breakwater-go/breakwater/internal/fleettest"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// secret is in arguments and statements: no span may hold it.
const secret = "hunter2-4711"

// traced is a DB whose connections are traced, with the spans.
type traced struct {
	*pgxread.DB

	tracer *otelpgx.Tracer
	made   *tracetest.InMemoryExporter
}

func open(t *testing.T, c otelpgx.Config) *traced {
	t.Helper()
	made := tracetest.NewInMemoryExporter()
	c.Provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(made))
	tracer := otelpgx.New(c)
	db, err := pgxread.Open(t.Context(), pgxread.Config{
		Primary: pgxread.Node{DSN: dsn("primary")}, Replicas: []pgxread.Node{{Name: "r1", DSN: dsn("r1")}},
		Settings: fleettest.Quick(), Configure: tracer.Configure,
	})
	fleettest.Must(t, err)
	t.Cleanup(func() {
		db.Close()
		if text := fmt.Sprintf("%+v", made.GetSpans().Snapshots()); strings.Contains(text, secret) || strings.Contains(text, "SELECT") {
			t.Errorf("the spans hold SQL or an argument: %s", text)
		}
	})
	fleettest.Usable(t, db.Set(), "r1")
	if got := len(made.GetSpans()); got != 0 {
		t.Errorf("samplers made %d spans", got)
	}
	return &traced{db, tracer, made}
}

// named is the only span of that name.
func (d *traced) named(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	var all []string
	spans := d.made.GetSpans()
	for i := range spans {
		all = append(all, spans[i].Name)
		if spans[i].Name == name {
			found = append(found, spans[i])
		}
	}
	if len(found) != 1 {
		t.Fatalf("got %d spans named %q of %v, want one", len(found), name, all)
	}
	return found[0]
}

// wants compares attributes; "" wants none, "*" any.
func wants(t *testing.T, s tracetest.SpanStub, want map[attribute.Key]string) {
	t.Helper()
	got := map[attribute.Key]string{}
	for _, a := range s.Attributes {
		got[a.Key] = a.Value.String()
	}
	for key, v := range want {
		if got[key] != v && (v != "*" || got[key] == "") {
			t.Errorf("span %q, %s: got %q, want %q", s.Name, key, got[key], v)
		}
	}
}

// REQ-B14: a read's span tells where it was sent, and how late that node may be.
func TestRead(t *testing.T) {
	db := open(t, otelpgx.Config{})
	got, err := otelpgx.Read(t.Context(), db.tracer, "get note", func(ctx context.Context) (s string, err error) {
		err = db.Reader(replica.Requirement{}).QueryRow(ctx, "SELECT $1::text || '"+secret+"'", secret).Scan(&s)
		return s, err
	})
	if err != nil || got != secret+secret {
		t.Fatalf("got %q, %v", got, err)
	}
	whole, statement := db.named(t, "get note"), db.named(t, "postgresql")
	if statement.Parent.SpanID() != whole.SpanContext.SpanID() {
		t.Error("the statement is not in its read")
	}
	for _, s := range []tracetest.SpanStub{whole, statement} {
		wants(t, s, map[attribute.Key]string{
			"db.system.name": "postgresql", "breakwater.node": "r1", "breakwater.read.attempt": "1",
			"breakwater.staleness.lo": "*", "breakwater.staleness.hi": "*", "breakwater.read.late": "",
			"circuit_breaker.name": "r1", "circuit_breaker.state": "closed", "circuit_breaker.outcome": "success", "error.type": "",
		})
	}
}

// REQ-B14: a read that no replica may take is a short span; the statement's own fault is ignored by the breaker.
func TestReadFails(t *testing.T) {
	db := open(t, otelpgx.Config{})
	read := func(ctx context.Context) (n int, err error) {
		err = db.Reader(replica.Requirement{}).QueryRow(ctx, "SELECT 1/0").Scan(&n)
		return n, err
	}
	if _, err := otelpgx.Read(t.Context(), db.tracer, "get note", read); err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"get note", "postgresql"} {
		wants(t, db.named(t, name), map[attribute.Key]string{"error.type": "22012", "circuit_breaker.outcome": "ignored", "breakwater.node": "r1"})
	}
	wants(t, db.named(t, "postgresql"), map[attribute.Key]string{"db.response.status_code": "22012"})
	db.made.Reset()
	fleettest.Must(t, db.Set().Breaker("r1").Force(breaker.ForcedOpen, "test"))
	if _, err := otelpgx.Read(t.Context(), db.tracer, "get note", read); !errors.Is(err, replica.ErrNoReplica) {
		t.Fatalf("got %v, want a refusal", err)
	}
	wants(t, db.named(t, "get note"), map[attribute.Key]string{"error.type": "circuit_open", "circuit_breaker.outcome": "rejected", "breakwater.node": ""})
	db.made.Reset()
	never := db.Reader(replica.Requirement{MaxStaleness: -1})
	fleettest.Must(t, db.Set().Breaker("r1").Force(breaker.Closed, "test"))
	_, _ = otelpgx.Read(t.Context(), db.tracer, "get note", func(ctx context.Context) (n int, err error) {
		err = never.QueryRow(ctx, "SELECT 7").Scan(&n)
		return n, err
	})
	wants(t, db.named(t, "get note"), map[attribute.Key]string{"error.type": "no_replica", "circuit_breaker.outcome": "rejected"})
}

// Writes, batches and COPY have spans too; a summary names a statement.
func TestOtherStatements(t *testing.T) {
	db := open(t, otelpgx.Config{Summary: func(sql string) string {
		if strings.Contains(sql, "TEMP") {
			return "create scratch"
		}
		return ""
	}})
	tx, err := db.Begin(t.Context())
	fleettest.Must(t, err)
	_, err = tx.Exec(t.Context(), "CREATE TEMP TABLE scratch (note text)")
	fleettest.Must(t, err)
	_, err = tx.CopyFrom(t.Context(), pgx.Identifier{"scratch"}, []string{"note"}, pgx.CopyFromRows([][]any{{secret}}))
	fleettest.Must(t, err)
	batch := &pgx.Batch{}
	batch.Queue("SELECT $1::text", secret)
	batch.Queue("SELECT 7")
	fleettest.Must(t, tx.SendBatch(t.Context(), batch).Close())
	fleettest.Must(t, tx.Rollback(t.Context()))
	create := db.named(t, "create scratch")
	wants(t, create, map[attribute.Key]string{
		"db.query.summary": "create scratch", "breakwater.node": "primary", "breakwater.read.attempt": "", "circuit_breaker.name": "", "breakwater.staleness.hi": "",
	})
	wants(t, db.named(t, "COPY"), map[attribute.Key]string{"breakwater.node": "primary"})
	wants(t, db.named(t, "BATCH"), map[attribute.Key]string{"breakwater.node": "primary", "db.operation.batch.size": "2"})
}

// A nil Tracer leaves a read as it is.
func TestReadWithoutTracer(t *testing.T) {
	if got, err := otelpgx.Read(t.Context(), nil, "get note", func(context.Context) (int, error) { return 7, nil }); got != 7 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
