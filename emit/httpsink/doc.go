// Package httpsink delivers triggers to one consumer over HTTP, as CloudEvents 1.0.
//
//	sink, err := httpsink.New(httpsink.Config{URL: "https://billing.internal/events"})
//
// A trigger is sent by POST in binary mode: its data is the body, its attributes are headers (ce-id, ce-type, ce-source,
// ce-time, ce-subject, ce-partitionkey for its Key, and its Attributes). With [Config.Structured] the body is a JSON
// envelope that holds all of it; data whose type is not application/json or text/json stands there in base64. The header Idempotency-Key carries the ID, which is the same at each delivery
// (REQ-E8). A trigger that can be no CloudEvent (without a Source, say, or with an attribute "Trace-ID") is rejected
// before anything is sent.
//
// # What an answer means
//
// By REQ-E15:
//
//   - 2xx: delivered, once the headers are there. The body is read to a bound, for the connection's sake, and thrown away.
//   - 4xx but 408 and 429: rejected. The [StatusError] matches [emit.ErrRejected] and has the beginning of the answer.
//   - All else is a failure: 5xx, 408, 429, a redirect, transport errors, and the end of the context.
//   - A Retry-After with 429 or 503, in seconds or as a date, makes it an [emit.LaterError], of at most [MaxRetryAfter].
//
// Redirects are not followed: they would turn a POST into a GET, or send it with its Authorization to another host.
// A redirect is a failure and not a rejection, since the URL is at fault and not the trigger.
// What ought to be judged otherwise a SinkFunc around the Sink can say; the example of StatusError does.
//
// # Time and resources
//
// The context bounds a delivery, body included; a Router's lane sets it a timeout. An attempt to connect goes on without its
// caller for at most 500 ms. There are at most [Config.MaxConns] connections; a delivery that finds none free waits for one.
// At most 64 KiB of headers and 64 KiB of a body are read of an answer; a connection on which more was sent is closed.
// An idle connection that the consumer has closed meanwhile costs no failure: net/http sends again on another one, which
// makes deliveries "at least once" as the rest does.
//
// # What is shown
//
// Errors name the scheme and host of the URL and nothing else of it, since paths and queries of webhooks are secrets. In what is kept of
// an answer, the values of [Config.Header], of the authorization and of the URL's query and path are blotted out if the consumer
// sends them back as they are.
//
// # Concurrency
//
// All methods of a [Sink] may be called at any time from any goroutine. Config.Authorization is called concurrently, on the
// goroutine of the delivery. No goroutine is started but net/http's own for connections; once Deliver has
// returned nobody reads the trigger's data any more.
package httpsink
