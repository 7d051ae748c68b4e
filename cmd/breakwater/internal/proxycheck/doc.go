// Package proxycheck tells proxies in front of PostgreSQL which replicas may take reads, by what the breakers of this process say
// (docs/proxies.md): a handler for health checks over HTTP, and a server for the agent checks of HAProxy.
//
// Both answer from memory (REQ-R1): what a check costs is independent of how any server is. A replica of which nothing is known is told as
// one that takes no reads (REQ-R5). Both may be asked without a credential, so what a server or its driver said is told by its kind alone (REQ-O4).
//
// # Concurrency
//
// The handler and all methods of Agent may be called from any goroutine. An Agent has a goroutine for each connection, for which Close waits.
package proxycheck
