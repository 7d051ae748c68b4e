// Package api is the interface over HTTP that the daemon and the lab share (docs/http.md): what is the state of
// everything, what happened, and what an operator may change.
//
// Data flows one way. The library's observers and the daemon publish Events to a Hub, which keeps the newest ones; a Source
// tells the Status of this moment, from memory. A Server reads both. What an operator does comes back as calls of Actions, and, in the lab, of a Lab.
//
// # Concurrency
//
// All methods may be called at any time from any goroutine. Publishing never waits for a reader: a client that does
// not read falls behind and is cut off.
package api
