// Command breakwater is Breakwater's one binary. `breakwater lab` starts a real
// PostgreSQL fleet on loopback, sends traffic through the library, and breaks
// replicas.
package main

import (
	"os"
	"time"
)

// started is as near to the process's start as Go lets a program look: ready_ms and
// t_ms count from it.
var started = time.Now()

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
