package httpsink_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/httpsink"
)

func Example() {
	consumer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		fmt.Println(req.Header.Get("ce-type"), req.Header.Get("Idempotency-Key"))
	}))
	defer consumer.Close()

	sink, err := httpsink.New(httpsink.Config{
		URL:           consumer.URL,
		Authorization: func(context.Context) (string, error) { return "Bearer …", nil },
	})
	if err != nil {
		fmt.Println(err) // every fault of the Config
		return
	}
	defer sink.CloseIdleConnections()
	err = sink.Deliver(context.Background(), emit.Trigger{
		ID: "4711", Type: "order.paid", Source: "/shop", Data: []byte(`{"sum":1}`),
	})
	fmt.Println(err)
	// Output:
	// order.paid 4711
	// <nil>
}

func ExampleNew() {
	_, err := httpsink.New(httpsink.Config{URL: "https://user:secret@billing.internal/events", MaxConns: -1})
	fmt.Println(err)
	// Output:
	// httpsink: URL has a user in it: use the field Authorization
	// httpsink: MaxConns is -1: use 1 to 10000, or 0 for 16
}

// A consumer whose 401 is an outage of its login and no judgement on the trigger: what is not rejected is replayed.
func ExampleStatusError() {
	consumer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer consumer.Close()
	plain, err := httpsink.New(httpsink.Config{URL: consumer.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer plain.CloseIdleConnections()

	sink := emit.SinkFunc(func(ctx context.Context, t emit.Trigger) error {
		err := plain.Deliver(ctx, t)
		if answer, ok := errors.AsType[*httpsink.StatusError](err); ok && answer.Status == http.StatusUnauthorized {
			return fmt.Errorf("login: status %d", answer.Status) // does not match emit.ErrRejected
		}
		return err
	})
	t := emit.Trigger{ID: "1", Type: "order.paid", Source: "/shop"}
	fmt.Println(errors.Is(plain.Deliver(context.Background(), t), emit.ErrRejected), sink.Deliver(context.Background(), t))
	// Output: true login: status 401
}
