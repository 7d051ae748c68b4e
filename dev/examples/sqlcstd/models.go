package sqlcstd

import (
	"database/sql"
	"time"
)

// Note is a row of note.
type Note struct {
	ID        int64
	Body      string
	Author    sql.NullString
	WrittenAt time.Time
}
