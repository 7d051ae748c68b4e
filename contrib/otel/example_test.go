package otelbreaker_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/breaker/httpbreaker"
	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
	"github.com/breakwater-go/breakwater/emit"
)

func ExampleDo() {
	tracer := otelbreaker.New(otelbreaker.Config{}) // OpenTelemetry's global provider
	b, err := breaker.New(breaker.Config{
		Name:     "prices",
		Observer: breaker.Observer{OnTransition: tracer.OnTransition("api")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	price, err := otelbreaker.Do(context.Background(), tracer, "price", b, func(context.Context) (int, error) {
		return 42, nil // the guarded call
	})
	fmt.Println(price, err)
	// Output: 42 <nil>
}

func ExampleNewTransport() {
	tracer := otelbreaker.New(otelbreaker.Config{})
	guarded, err := otelbreaker.NewTransport(tracer, httpbreaker.Config{
		Breaker: breaker.Config{Observer: breaker.Observer{OnTransition: tracer.OnTransition("http")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: guarded} // one for the process
	fmt.Println(client.Transport == guarded)
	// Output: true
}

func ExampleTracer_Emit() {
	tracer := otelbreaker.New(otelbreaker.Config{})
	ledger := emit.SinkFunc(func(context.Context, emit.Trigger) error { return nil })
	router, err := emit.New(emit.Config{Consumers: []emit.Consumer{
		tracer.Consumer(emit.Consumer{Name: "ledger", Sink: ledger}),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	receipt, err := tracer.Emit(context.Background(), router, emit.Trigger{Type: "order.paid"})
	fmt.Println(receipt.Of("ledger").Outcome, err)
	// Output: delivered <nil>
}
