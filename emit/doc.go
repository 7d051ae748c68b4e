// Package emit tells consumers of triggers with a blast radius of one: each consumer has its own lane (a
// breaker that sees slowness before errors, a bulkhead, a timeout), and what a lane cannot deliver now is kept in
// bounded dead letters, by priority, and replayed.
//
//	router, err := emit.New(emit.Config{Consumers: []emit.Consumer{
//		{Name: "ledger", Sink: ledger, Types: []string{"order.paid"}, Ordered: true},
//		{Name: "mailer", Sink: mailer},
//	}})
//	receipt, err := router.Emit(ctx, emit.Trigger{Type: "order.paid", Key: customer, Data: order})
//
// A nil error says that each consumer has the trigger or will get it; the [Receipt] says which. [Router.HandOver] is weaker: it only stores.
// docs/emit.md in the repository has the picture of a lane and what to set.
//
// # Delivery
//
// Delivery is at least once, under an ID that stays the same. A call that timed out may have taken effect, and so may one during which the
// process was killed; both are made again. Order is kept for consumers that ask for it, among triggers with the same
// Key: in the order in which their emits began. A letter that is parked holds nothing back.
//
// # Concurrency
//
// All methods of a [Router] and a [Ring] may be called at any time from any goroutine. A trigger for one consumer is delivered on
// its caller's goroutine; one for several on a goroutine each, and Emit waits for all of them. New and Reconfigure start one goroutine a consumer, for
// probes and replay, and each attempt at a letter runs on a goroutine of its own, of which there are no more than the bulkhead
// has places or there may be probes at once. Drain and Close wait for all of them.
//
// Emit takes no lock of its own but that of the lane's calls, twice, for a few instructions; an Ordered lane's one for keys too, and a trigger waits there
// for others of its key. A Sink, a store, Degrade and an Observer are called with no lock held, concurrently.
package emit
