package pgxread_test

import (
	"context"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// The README shows what stands between the two marks; internal/archtest compares them.

// README: begin
func newest(ctx context.Context, primary, r1, r2 string) (note string, err error) {
	db, err := pgxread.Open(ctx, pgxread.Config{
		Primary:  pgxread.Node{DSN: primary},
		Replicas: []pgxread.Node{{Name: "r1", DSN: r1}, {Name: "r2", DSN: r2}},
	})
	if err != nil {
		return "", err // every fault of the Config at once; a node that is down is none
	}
	defer db.Close()

	reads := db.Reader(replica.Requirement{}) // from a replica within the staleness limit
	err = reads.QueryRow(ctx, "SELECT note FROM item ORDER BY id DESC LIMIT 1").Scan(&note)
	return note, err // or replica.ErrNoReplica, with each node's reason
}

// README: end

func TestReadmeExample(t *testing.T) {
	want := "written at " + time.Now().String() // notes are unique, also with -count=2
	must(t, runSQL(t.Context(), dsn("primary"), "INSERT INTO item (note) VALUES ('"+want+"')"))
	must(t, pg.CatchUp(t.Context()))
	got, err := newest(t.Context(), dsn("primary"), dsn("r1"), dsn("r2"))
	must(t, err)
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
