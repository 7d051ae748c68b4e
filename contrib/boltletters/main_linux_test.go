package boltletters

import (
	"os"
	"testing"

	"github.com/breakwater-go/breakwater/internal/leaks"
)

// roleEnv makes this test program a child of a test, which plays a role of child_test.go.
const roleEnv = "BREAKWATER_BOLTLETTERS_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(playRole(role))
	}
	os.Exit(leaks.Check(m.Run()))
}
