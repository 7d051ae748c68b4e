package main

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

//go:embed schema.sql
var schema string

// store holds the queries. Its reads go where their context says; its writes to the primary.
type store struct{ db *pgxread.DB }

type account struct {
	ID    int64 `json:"id"`
	Cents int64 `json:"cents"`
}

type product struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Cents int64  `json:"cents"`
}

func (s store) create(ctx context.Context) error {
	_, err := s.db.Exec(ctx, schema, pgx.QueryExecModeSimpleProtocol) // several statements
	return err
}

func (s store) account(ctx context.Context, id int64) (a account, err error) {
	err = s.db.QueryRow(ctx, "SELECT id, cents FROM account WHERE id = $1", id).Scan(&a.ID, &a.Cents)
	return a, err
}

func (s store) product(ctx context.Context, id int64) (p product, err error) {
	err = s.db.QueryRow(ctx, "SELECT id, name, cents FROM product WHERE id = $1", id).Scan(&p.ID, &p.Name, &p.Cents)
	return p, err
}

func (s store) recommendations(ctx context.Context, id int64) ([]product, error) {
	const sql = "SELECT p.id, p.name, p.cents FROM recommendation r JOIN product p ON p.id = r.other WHERE r.product = $1 ORDER BY p.id"
	rows, err := s.db.Query(ctx, sql, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[product])
}

// deposit adds to an account, and returns its new balance and the position of that write.
func (s store) deposit(ctx context.Context, id, cents int64) (a account, p replica.Position, err error) {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return a, p, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after the commit
	const sql = "UPDATE account SET cents = cents + $2 WHERE id = $1 RETURNING id, cents"
	if err := tx.QueryRow(ctx, sql, id, cents).Scan(&a.ID, &a.Cents); err != nil {
		return a, p, err
	}
	p, err = pgxread.CommitPosition(ctx, tx)
	return a, p, err
}
