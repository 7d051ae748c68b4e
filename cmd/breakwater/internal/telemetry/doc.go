// Package telemetry exports spans over OTLP (HTTP with protobuf) to a collector.
//
// # Concurrency
//
// Spans are made by callers and handed to a bounded queue without waiting: what does not fit is dropped. One goroutine sends them, from Start to
// Close. A collector that cannot be reached costs its callers nothing, and is told of once a minute at most.
package telemetry
