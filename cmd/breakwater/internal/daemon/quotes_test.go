package daemon

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// quoting is a server that says of each password, which it asks for in the clear, that it is wrong, and which it was.
func quoting(t *testing.T) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			quote(conn)
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return ln.Addr().String()
}

func quote(conn net.Conn) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationCleartextPassword{})
	if b.Flush() != nil || b.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
		return
	}
	said, err := b.Receive()
	if err != nil {
		return
	}
	if p, ok := said.(*pgproto3.PasswordMessage); ok {
		b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "wrong: " + p.Password})
		_ = b.Flush()
	}
}

// REQ-O4: a server's error that quotes the password is on no route, those that are open included, and not in the agent's answer.
func TestAServerThatQuotesThePassword(t *testing.T) {
	at, password := free(t), known["password"]
	dsn := fmt.Sprintf("postgres://u:%s@%s/db?sslmode=disable", password, quoting(t))
	r := start(t, configured(t, fmt.Sprintf("agent_listen: %s\nprimary: {dsn: %q}\nreplicas:\n- {name: r1, dsn: %q}\n", at, dsn, dsn)))
	var all strings.Builder
	for _, path := range []string{"/replica/r1", "/api/v1/status", "/api/v1/export", "/metrics"} {
		_, answer := r.do("GET", path, "")
		all.WriteString(answer)
	}
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, "r1")
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	all.Write(answer)
	all.WriteString(r.log.String())
	if got := strings.Count(all.String(), "wrong: …"); got < 4 {
		t.Errorf("got what the server said %d times, want it on each of them", got)
	}
	if at := strings.Index(all.String(), password); at >= 0 {
		t.Errorf("got the password: %s", all.String()[max(0, at-200):at+len(password)])
	}
}
