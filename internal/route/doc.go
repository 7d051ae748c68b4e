// Package route is what the drivers do alike with a read: what the context of a call says of it, which
// node is chosen for it, and how it ends that no node could take it. It knows no driver.
//
// # Concurrency
//
// All functions may be called concurrently. An Intent is not changed once its context is made, but for
// what its Info points to, which is one call's at a time, or guarded by Together.
package route
