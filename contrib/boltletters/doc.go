// Package boltletters keeps dead letters in a bbolt file: an accepted letter survives kill -9 and a power
// cut (REQ-E7).
//
//	letters, err := boltletters.Open(ctx, boltletters.Config{Dir: "/var/lib/app/letters"})
//
// Append answers nil only after fsync. All that wait share one: the store's single committer puts what has
// come meanwhile into one transaction. What survives what, and how big to make it: docs/boltletters.md.
//
// Before a file that exists is opened it is checked in a child process, since bbolt maps it into memory and a damaged
// one may kill the process that reads it. The child is this program again: the package's init sees
// an environment variable, checks, and exits before main. [Config.Check] replaces that.
//
// # Concurrency
//
// All methods of a [Store] may be called at any time from any goroutine. Append, Claim, Settle, Discard and Unpark
// wait for the commit that holds their change, Letters and Depths for none. A Store has one goroutine, the committer, until
// Close, which waits for it. The Observer's functions are called one after the other, by Open and by the committer, with no lock held;
// they must be quick and must not call the Store.
package boltletters
