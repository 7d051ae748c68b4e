// Package postgres holds what the drivers share about PostgreSQL: the statement
// that samples a node, the meaning of its answer, WAL positions, and what an
// SQLSTATE says about the node that sent it. It imports no driver.
//
// # Concurrency
//
// All functions are pure and may be called concurrently.
package postgres
