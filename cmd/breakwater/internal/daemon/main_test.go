package daemon

import (
	"os"
	"testing"

	"github.com/breakwater-go/breakwater/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Check(m.Run())) }
