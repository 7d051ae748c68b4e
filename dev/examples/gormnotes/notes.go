// Package gormnotes keeps notes with gorm: writes and what follows them on the primary, lists on
// replicas. The tests of dev/sqlreadtest run it against real servers.
package gormnotes

import (
	"context"
	"database/sql"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// Note is a row of notes.
type Note struct {
	ID     uint64
	Author string
	Body   string
	Tags   []Tag
}

// Tag is a row of tags.
type Tag struct {
	ID     uint64
	NoteID uint64
	Name   string
}

// Notes are a primary's, and as replicas have them.
type Notes struct {
	primary, replicas *gorm.DB
}

// Open takes gorm to db. It asks no server, so that it succeeds while one is down.
func Open(db *sqlread.DB) (*Notes, error) {
	primary, err := open(db.DB)
	if err != nil {
		return nil, err
	}
	replicas, err := open(db.Reader(replica.Requirement{}))
	return &Notes{primary, replicas}, err
}

func open(pool *sql.DB) (*gorm.DB, error) {
	return gorm.Open(postgres.New(postgres.Config{Conn: pool}), &gorm.Config{DisableAutomaticPing: true, PrepareStmt: true})
}

// Migrate makes the tables.
func (n *Notes) Migrate(ctx context.Context) error {
	return n.primary.WithContext(ctx).AutoMigrate(&Note{}, &Tag{})
}

// Add writes a note with its tags, in the transaction that gorm makes for it.
func (n *Notes) Add(ctx context.Context, note *Note) error {
	return n.primary.WithContext(ctx).Create(note).Error
}

// Rename changes all notes of an author, or none.
func (n *Notes) Rename(ctx context.Context, from, to string) error {
	return n.primary.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var own []Note
		if err := tx.Where("author = ?", from).Find(&own).Error; err != nil {
			return err
		}
		for i := range own {
			if err := tx.Model(&own[i]).Update("author", to).Error; err != nil {
				return err
			}
		}
		return nil
	})
}

// Of lists an author's notes from replicas.
func (n *Notes) Of(ctx context.Context, author string) ([]Note, error) {
	var notes []Note
	err := n.replicas.WithContext(ctx).Preload("Tags").Where("author = ?", author).Order("id").Find(&notes).Error
	return notes, err
}

// Count counts an author's notes where req allows it: where the
// requirement varies, the context gives it.
func (n *Notes) Count(ctx context.Context, author string, req replica.Requirement) (count int64, err error) {
	ctx = sqlread.WithRead(ctx, req)
	err = n.primary.WithContext(ctx).Model(&Note{}).Where("author = ?", author).Count(&count).Error
	return count, err
}
