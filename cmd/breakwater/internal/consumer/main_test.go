package consumer

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/internal/leaks"
)

// The test's own program plays the consumer, and a parent that gets killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "consumer":
			if err := Run(context.Background(), Options{Seed: 1, Forget: len(os.Args) > 2}, os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "parent":
			p, err := Start(child("consumer"))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println(p.URL)
			select {}
		}
	}
	os.Exit(leaks.Check(m.Run()))
}

func child(role string) *exec.Cmd {
	c := exec.Command(os.Args[0], role)
	c.Stderr = os.Stderr
	return c
}

// reachable tells whether somebody listens at a URL.
func reachable(url string) bool {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func firstLine(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
