// Package readpath is what a program does with its reads when no replica is fresh enough:
// not everything to the primary, which turns a read incident into a write incident, and
// not old data in silence.
//
// Each kind of read is an [Endpoint] with a [Class]. In Normal every class reads from the
// replicas. When none is eligible the path is degraded: a critical read goes to the primary
// within a [Budget] or is refused; a degradable one is answered from a cache, flagged
// stale with its age, from the primary if there is room, or by a default; a sheddable one is dropped. Once a
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
// of a degraded read takes no lock and allocates nothing, but for one that waits for a loader. New starts
// one goroutine, the watcher; a degradable read of the primary with a key starts one, its loader; Close
// waits for all of them.
package readpath
