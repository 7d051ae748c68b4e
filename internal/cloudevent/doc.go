// Package cloudevent writes triggers as CloudEvents 1.0 over HTTP, in binary and in structured mode, and reads them.
//
// ID, Type, Source, Subject, Time and ContentType are the attributes of those meanings, Key is the extension
// partitionkey, and Attributes are further extensions, or dataschema. A Priority is the Router's own and is not sent.
//
// # Concurrency
//
// All functions may be called from any goroutine.
package cloudevent
