package sqlcshape

import (
	"context"
)

// iteratorForCopyNotes implements pgx.CopyFromSource.
type iteratorForCopyNotes struct {
	rows                 []CopyNotesParams
	skippedFirstNextCall bool
}

func (r *iteratorForCopyNotes) Next() bool {
	if len(r.rows) == 0 {
		return false
	}
	if !r.skippedFirstNextCall {
		r.skippedFirstNextCall = true
		return true
	}
	r.rows = r.rows[1:]
	return len(r.rows) > 0
}

func (r *iteratorForCopyNotes) Values() ([]any, error) {
	return []any{
		r.rows[0].Body,
		r.rows[0].Author,
	}, nil
}

func (r *iteratorForCopyNotes) Err() error {
	return nil
}

// CopyNotes is a :copyfrom.
func (q *Queries) CopyNotes(ctx context.Context, arg []CopyNotesParams) (int64, error) {
	return q.db.CopyFrom(ctx, []string{"note"}, []string{"body", "author"}, &iteratorForCopyNotes{rows: arg})
}
