package fleet_test

import (
	"testing"

	"github.com/breakwater-go/breakwater/internal/fleet"
)

func TestStartToReady(t *testing.T) {
	f := start(t, fleet.Config{})
	t.Log(f.Version())
	for _, n := range f.Nodes() {
		got, err := needPsql(t).query(t.Context(), n.DSN, "select current_user, pg_is_in_recovery(), pg_has_role(current_user,'pg_monitor','member')")
		t.Log(n.Name, n.Port, got, err)
	}
	for _, n := range []string{"r1", "r2", "r3"} {
		must(t, f.Pause(t.Context(), n))
		must(t, f.Freeze(n))
	}
	must(t, f.Kill("r1"))
	must(t, f.Thaw("r2"))
	must(t, f.Promote(t.Context(), "r2"))
	must(t, f.SwitchSegment(t.Context()))
	must(t, f.Kill("primary"))
	must(t, f.Heal(t.Context()))
}
