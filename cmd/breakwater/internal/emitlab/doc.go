// Package emitlab runs the scenarios of consumers: triggers through the library to real HTTP servers in processes of their
// own, faults of those, and a verdict from what the consumers took. It needs no PostgreSQL.
package emitlab
