package sqlreadtest

import (
	"database/sql"
	"errors"
	"os"
	"testing"

	"github.com/breakwater-go/breakwater/dev/examples/gormnotes"
	"github.com/breakwater-go/breakwater/dev/examples/sqlcstd"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// What sqlc generates for database/sql takes a DB and its readers where it has a sql.DB otherwise.
var (
	_ sqlcstd.DBTX = (*sqlread.DB)(nil)
	_ sqlcstd.DBTX = (*sql.DB)(nil)
)

// behaviours-routing 48, REQ-R13: code of sqlc's shape runs unchanged, with prepared statements and without.
func TestSqlcShape(t *testing.T) {
	schema, err := os.ReadFile("../examples/sqlcstd/schema.sql")
	must(t, err)
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			ctx := t.Context()
			must(t, runSQL(ctx, dsn("primary"), "DROP TABLE IF EXISTS note; "+string(schema)))
			w := open(t, drv, quick())
			w.usable(t, "r1", "r2")
			ann := sql.NullString{String: "ann", Valid: true}
			plain := sqlcstd.New(w)
			prepared, err := sqlcstd.Prepare(ctx, w)
			must(t, err)
			defer prepared.Close()
			reads, err := sqlcstd.Prepare(ctx, w.Reader(anywhere))
			must(t, err)
			defer reads.Close()

			first, err := plain.CreateNote(ctx, sqlcstd.CreateNoteParams{Body: "one", Author: ann})
			must(t, err)
			_, err = prepared.CreateNote(ctx, sqlcstd.CreateNoteParams{Body: "nobody's"})
			must(t, err)
			tx, err := w.BeginTx(ctx, nil)
			must(t, err)
			_, err = prepared.WithTx(tx).CreateNote(ctx, sqlcstd.CreateNoteParams{Body: "two", Author: ann})
			must(t, err)
			must(t, tx.Commit())
			must(t, pg.CatchUp(ctx, "r1", "r2"))

			var info sqlread.ReadInfo
			under := sqlread.WithInfo(ctx, &info)
			for name, q := range map[string]*sqlcstd.Queries{"plain": sqlcstd.New(w.Reader(anywhere)), "prepared": reads} {
				got, err := q.GetNote(under, first.ID)
				if err != nil || got != first && !got.WrittenAt.Equal(first.WrittenAt) || info.Node == "" || info.Primary {
					t.Errorf("%s: GetNote %+v, %v, on %q, want %+v on a replica", name, got, err, info.Node, first)
				}
			}
			list, err := prepared.ListNotes(sqlread.WithRead(under, anywhere), ann)
			if err != nil || len(list) != 2 || info.Primary {
				t.Errorf("ListNotes: %+v, %v, on %q, want 2 on a replica", list, err, info.Node)
			}
			if _, err := reads.CreateNote(ctx, sqlcstd.CreateNoteParams{Body: "x"}); !errors.Is(err, sqlread.ErrWriteInRead) {
				t.Errorf("CreateNote as a read: %v, want ErrWriteInRead", err)
			}
			if _, err := reads.GetNote(ctx, -1); !errors.Is(err, sql.ErrNoRows) {
				t.Errorf("GetNote of none: %v, want sql.ErrNoRows", err)
			}
			w.unharmed(t)
			w.idle(t)
		})
	}
}

// behaviours-routing 47, 48, REQ-R13: gorm takes a DB and its readers, with its own prepared statements,
// transactions and preloads.
func TestGorm(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			ctx := t.Context()
			must(t, runSQL(ctx, dsn("primary"), "DROP TABLE IF EXISTS tags, notes"))
			w := open(t, drv, quick())
			w.usable(t, "r1", "r2")
			notes, err := gormnotes.Open(w.DB)
			must(t, err)
			must(t, notes.Migrate(ctx))
			for _, body := range []string{"one", "two"} {
				must(t, notes.Add(ctx, &gormnotes.Note{Author: "ann", Body: body, Tags: []gormnotes.Tag{{Name: "a"}, {Name: "b"}}}))
			}
			must(t, notes.Rename(ctx, "ann", "bea"))
			must(t, pg.CatchUp(ctx, "r1", "r2"))

			var info sqlread.ReadInfo
			list, err := notes.Of(sqlread.WithInfo(ctx, &info), "bea")
			if err != nil || len(list) != 2 || len(list[0].Tags) != 2 || info.Node == "" || info.Primary {
				t.Errorf("Of: %+v, %v, on %q, want 2 with 2 tags each, on a replica", list, err, info.Node)
			}
			for _, req := range []replica.Requirement{anywhere, {PrimaryOnly: true}} {
				n, err := notes.Count(sqlread.WithInfo(ctx, &info), "bea", req)
				if err != nil || n != 2 || info.Primary != req.PrimaryOnly {
					t.Errorf("Count: %d, %v, on %q, want 2", n, err, info.Node)
				}
			}
			w.unharmed(t)
			w.idle(t)
		})
	}
}
