package prombreakwater_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-go/breakwater/breaker"
	prombreakwater "github.com/breakwater-go/breakwater/contrib/prometheus"
)

func Example() {
	var b *breaker.Breaker
	metrics, err := prombreakwater.New(prombreakwater.Config{Parts: func() prombreakwater.Parts {
		return prombreakwater.Parts{Groups: []prombreakwater.Group{prombreakwater.Single("http", b)}}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err = breaker.New(breaker.Config{Name: "billing", Observer: metrics.Breakers("http", breaker.Observer{})})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics) // and serve it by promhttp.HandlerFor

	b.Trip(breaker.Reason{Rule: "probe"})
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		if f.GetName() == "breakwater_breaker_openings_total" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: breakwater_breaker_openings_total 1
}
