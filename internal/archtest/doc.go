// Package archtest holds the rules of this repository as tests: which package may import which,
// that the core requires no module, that an ID which a comment cites exists. It has no code of its
// own besides them.
//
// Each rule is a function from a file tree to the faults found in it, so the same function judges
// the repository and small made-up trees that break the rule on purpose (seeded_test.go). A rule
// that names something which no longer exists is a fault too: lists of exceptions cannot rot.
package archtest
