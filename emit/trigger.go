package emit

import "time"

// A Trigger is one thing to tell consumers. It maps one to one to a CloudEvents 1.0 event.
type Trigger struct {
	// ID is the same at each delivery, so that a consumer can discard duplicates
	// (REQ-E8). Default: the Router makes one.
	ID string
	// Type says what it is, "order.paid"; it decides which consumers get it. Required.
	Type string
	// Source says where it comes from. Default: the Router's Source.
	Source string
	// Subject says what it is about. Default: none.
	Subject string
	// Time is when it happened. Default: when it is emitted.
	Time time.Time
	// Key is what order is kept by, for consumers that ask for it. Default: none.
	Key string
	// Priority is one of the Router's. Default: the Router's DefaultPriority.
	Priority string
	// ContentType is that of Data. Default: application/json.
	ContentType string
	// Data is the payload. It must not change while Emit runs; what is stored is a copy.
	Data []byte
	// Attributes are further CloudEvents attributes (extensions).
	Attributes map[string]string
}
