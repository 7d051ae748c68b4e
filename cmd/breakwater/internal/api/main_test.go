package api

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/internal/leaks"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(leaks.Check(code))
}
