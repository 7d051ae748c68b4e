package sqlcshape

import (
	"github.com/jackc/pgx/v5/pgtype"
)

// Note is a row of note.
type Note struct {
	ID        int64
	Body      string
	Author    string
	WrittenAt pgtype.Timestamptz
}
