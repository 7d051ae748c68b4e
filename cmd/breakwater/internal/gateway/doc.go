// Package gateway takes triggers over HTTP: CloudEvents 1.0, one in structured or binary mode, or a batch in JSON
// (docs/gateway.md says what is sent and what the answers mean).
//
// An event is answered with 202 once each of its consumers has it, or its dead letters do (REQ-E8); with 429 where it was shed for one
// of them, and with 503 where it could be neither delivered nor stored, or the process ends (REQ-E12). A client that goes away takes back
// nothing: what was read whole is emitted, however long its sender still listens.
//
// # Concurrency
//
// A Gateway may be called from any goroutine. It starts goroutines for the events of a batch, and waits for them before it answers.
package gateway
