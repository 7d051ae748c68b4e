package pgxread_test

import (
	"errors"
	"os"
	"testing"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/pgxread/examples/sqlcshape"
	"github.com/breakwater-go/breakwater/replica"
)

// What sqlc generates takes a DB, a Reader and their transactions where it has a pool otherwise.
var (
	_ sqlcshape.DBTX = (*pgxread.DB)(nil)
	_ sqlcshape.DBTX = (*pgxread.Reader)(nil)
)

// REQ-R13: code of sqlc's shape runs unchanged: writes on the primary, reads on a replica.
func TestSqlcShape(t *testing.T) {
	ctx := t.Context()
	schema, err := os.ReadFile("examples/sqlcshape/schema.sql")
	must(t, err)
	must(t, runSQL(ctx, dsn("primary"), "DROP TABLE IF EXISTS note; "+string(schema)))
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	q, reads := sqlcshape.New(w), sqlcshape.New(w.Reader(replica.Requirement{}))

	first, err := q.CreateNote(ctx, sqlcshape.CreateNoteParams{Body: "one", Author: "ann"})
	must(t, err)
	n, err := q.CopyNotes(ctx, []sqlcshape.CopyNotesParams{{Body: "two", Author: "ann"}, {Body: "three", Author: "bob"}})
	if err != nil || n != 2 {
		t.Errorf("CopyNotes: %d, %v, want 2", n, err)
	}
	must(t, q.TouchNote(ctx, first.ID))
	q.SetBody(ctx, []sqlcshape.SetBodyParams{{Body: "ONE", ID: first.ID}, {Body: "TWO", ID: first.ID + 1}}).Exec(func(_ int, err error) { must(t, err) })
	tx, err := w.Begin(ctx)
	must(t, err)
	must(t, q.WithTx(tx).TouchNote(ctx, first.ID))
	must(t, tx.Commit(ctx))
	must(t, pg.CatchUp(ctx, "r1", "r2"))

	var info pgxread.ReadInfo
	under := pgxread.WithInfo(ctx, &info)
	got, err := reads.GetNote(under, first.ID)
	if err != nil || got.Body != "ONE" || info.Primary || info.Node == "" {
		t.Errorf("GetNote: %+v, %v, on %q, want ONE on a replica", got, err, info.Node)
	}
	got, err = q.GetNote(pgxread.WithRead(under, replica.Requirement{PrimaryOnly: true}), first.ID)
	if err != nil || got.Body != "ONE" || !info.Primary {
		t.Errorf("GetNote of the primary: %+v, %v, on %q", got, err, info.Node)
	}
	list, err := q.ListNotes(pgxread.WithRead(under, replica.Requirement{}), "ann")
	if err != nil || len(list) != 2 || info.Primary {
		t.Errorf("ListNotes: %+v, %v, on %q, want 2 on a replica", list, err, info.Node)
	}
	reads.GetNotes(under, []int64{first.ID, first.ID + 1}).QueryRow(func(i int, note sqlcshape.Note, err error) {
		if err != nil || note.Body != []string{"ONE", "TWO"}[i] {
			t.Errorf("GetNotes: %+v, %v", note, err)
		}
	})
	reads.NotesOf(under, []string{"ann", "bob", "nobody"}).Query(func(i int, notes []sqlcshape.Note, err error) {
		if err != nil || len(notes) != []int{2, 1, 0}[i] {
			t.Errorf("NotesOf %d: %+v, %v", i, notes, err)
		}
	})
	if _, err := reads.CreateNote(ctx, sqlcshape.CreateNoteParams{Body: "x", Author: "x"}); !errors.Is(err, pgxread.ErrWriteInRead) {
		t.Errorf("CreateNote as a read: %v, want ErrWriteInRead", err)
	}
	if n, err := q.DeleteNotes(ctx, "ann"); err != nil || n != 2 {
		t.Errorf("DeleteNotes: %d, %v, want 2", n, err)
	}
	w.idle(t, "r1")
	w.idle(t, "r2")
}
