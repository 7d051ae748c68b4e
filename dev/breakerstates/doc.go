// Package breakerstates walks through every interleaving of three callers, two slots for probes, the
// timer and an outside Trip of a breaker, and checks in each state that is reached what must hold in
// all of them. Calls, wakes, trips and leases that end have no bound: states that differ in names only
// are one (canon.go), and then there are just under a million.
//
// It is a transcription of package breaker by hand: one step here is one atomic operation there that
// another goroutine can see (breaker.go, permit.go, halfopen.go, transition.go). Taking the lock is one
// step with the first thing done under it, releasing it one with the last, since nobody can see
// what lies between. The rule is the simplest, one failure opens; two probes in a row close, and a
// half-open that has lasted too long opens. Left out are Reconfigure, Force, latency rules, ignored
// results, that the cell keeps a generation modulo 2^24, and the further cells of a busy breaker: a call counts
// in one of them, and each has moved before the word does, as the one here.
//
// The tests take the guards away one by one, and each time the walk must find what the guard is for.
package breakerstates
