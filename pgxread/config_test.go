package pgxread_test

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// Every fault is told at once, with its field and its mend.
func TestOpenNamesEveryFault(t *testing.T) {
	ok := "host=localhost"
	cfg := pgxread.Config{
		Primary: pgxread.Node{},
		Replicas: []pgxread.Node{
			{Name: "a", DSN: "host=h port=x"},
			{Name: "a", DSN: ok},
			{DSN: ok},
			{Name: "primary", DSN: ok},
			{Name: "b", DSN: ok, SampleDSN: "postgres://h/db?sslmode=maybe"},
		},
		Settings:       replica.Settings{Trip: 100 * time.Millisecond, Reenter: 200 * time.Millisecond},
		ConnectTimeout: -1,
		SlowCall:       -1,
	}
	_, err := pgxread.Open(t.Context(), cfg)
	if err == nil {
		t.Fatal("no error")
	}
	if checked := cfg.Check(); checked == nil || checked.Error() != err.Error() {
		t.Errorf("Check: got %v, want what Open says:\n%v", checked, err)
	}
	for _, want := range []string{
		"Primary.DSN is empty: give", "Replicas[0] (a).DSN does not parse", "port",
		`Replicas[1].Name "a" is also the name of Replicas[0]: give`, "Replicas[2].Name is empty: give",
		`Replicas[3].Name "primary" is also the name of Primary`, "Replicas[4] (b).SampleDSN does not parse", "sslmode",
		"ConnectTimeout -1ns is negative: use", "SlowCall -1ns is negative: use", "Reenter",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error says nothing of %q:\n%v", want, err)
		}
	}
}

// Check finds what only the Set would say, and takes what is in order.
func TestCheck(t *testing.T) {
	cfg := pgxread.Config{
		Primary: pgxread.Node{DSN: "host=h"}, Replicas: []pgxread.Node{{Name: "a", DSN: "host=i"}},
		PrimaryReadsDSN: "host=h user=reads",
	}
	if err := cfg.Check(); err != nil {
		t.Errorf("in order: got %v", err)
	}
	cfg.Settings.Reenter = time.Hour
	if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "replica: Reenter is 1h0m0s, above Trip") {
		t.Errorf("settings: got %v, want the fault of Reenter", err)
	}
}

// A DSN with a fault is never shown, nor a piece of its password.
func TestPasswordsAreNeverShown(t *testing.T) {
	for _, dsn := range []string{
		"postgres://app:hunter2@host:port/db",
		"postgres://app:hun/ter2@host:5432/db",
		"postgres://app:hun#ter2@host:5432/db?sslmode=bad",
		"postgres://app:12/hunter2@host/db",
		"postgres://app:hun@ter2@host/db",
		"postgres://app:hun:ter2@host:x/db",
		"postgres://app:hunter%2@host/db",
		"postgres://app:hunter%zz2@host/db",
		"postgres://app:hunter2@host/db?sslmode=bad",
		"postgres://app@host/db?password=hunter2&sslmode=bad",
		"postgres://app@host/db?pass%77ord=hunter2&connect_timeout=x",
		"postgresql://app:hunter2@host/db?pool_max_conns=x",
		"postgresql://app:hunter2@host/db?pool_max_conns=0",
		"postgresql://app:hunter2@host/db?target_session_attrs=hunter2",
		"postgresql://app:hunter2@host/db?min_protocol_version=hunter2",
		"postgresql://app:hunter2@host/db?channel_binding=hunter2",
		"postgresql://app:hunter2@[::1/db",
		"host=h password=hunter2 port=x",
		"host=h password='hunter2 port=1",
		"host=h password = hunter2 sslmode=bad",
		"host=h user=app password=my hunter2",
		`host=h password='hun\'ter2' port=x`,
		`host=h password=hun\ ter2 sslmode=bad`,
		"host=h PASSWORD hunter2",
		"hunter2",
		"app:hunter2@host",
		"mysql://app:hunter2@host/db",
	} {
		_, err := pgxread.Open(t.Context(), pgxread.Config{Primary: pgxread.Node{DSN: dsn}})
		if err == nil {
			t.Errorf("%s: no error", dsn)
			continue
		}
		for _, piece := range []string{"hunter", "ter2", "hun/", "hun?"} {
			if strings.Contains(err.Error(), piece) {
				t.Errorf("%s: %q shows in %v", dsn, piece, err)
			}
		}
		if !strings.Contains(err.Error(), "Primary.DSN") {
			t.Errorf("%s: %v does not name the field", dsn, err)
		}
	}
}
