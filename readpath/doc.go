// Package readpath is what a program does with its reads when no replica is fresh enough:
// not everything to the primary, which turns a read incident into a write incident, and
// not old data in silence.
//
// Each kind of read is an [Endpoint] with a [Class]. In Normal every class reads from the
// replicas. When none is eligible the path is degraded: a critical read goes to the primary
// within a [Budget] or is refused; a degradable one is answered from a cache, or by choice from a
// late replica, flagged stale with its age, from the primary if there is room, or by a default; a sheddable one is dropped. Once a
// replica has been eligible for a sustained time the classes get the replicas back, one after
// the other (docs/states.md).
//
//	res, err := readpath.Get(ctx, router, readpath.Call{Endpoint: "product", Key: id}, func(ctx context.Context) (Product, error) {
//		return queries.Product(ctx, id) // its statements go where ctx says
//	})
//
// # Concurrency
//
// All methods of a [Router], and [Get], may be called at any time from any goroutine. The decision
// of a degraded read allocates nothing and takes no lock, but for a degradable one with a key, which looks
// for the loader of that key under one. New starts one goroutine, the watcher; a degradable read of the primary
// with a key starts one, its loader, of which there are never more than Budget.Concurrent; Close waits for all of them.
package readpath
