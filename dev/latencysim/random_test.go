package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The draws have the mean, the variance and the shares of a Poisson distribution.
func TestPoisson(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 200_000
	for _, mean := range []float64{0.05, 0.9, 9.9, 10, 20.9, 350, 4000} {
		sum, squares, atMost := 0.0, 0.0, 0.0
		for range n {
			k := float64(poisson(rng, mean))
			sum, squares = sum+k, squares+k*k
			if k <= math.Floor(mean) {
				atMost++
			}
		}
		got := sum / n
		variance := squares/n - got*got
		if slack := 5 * math.Sqrt(mean/n); math.Abs(got-mean) > slack || math.Abs(variance-mean) > 5*mean*math.Sqrt((2+1/mean)/n) {
			t.Errorf("mean %g: got mean %g, variance %g", mean, got, variance)
		}
		if want := cumulated(mean); math.Abs(atMost/n-want) > 5*math.Sqrt(want*(1-want)/n) {
			t.Errorf("mean %g: got a share of %g up to it, want %g", mean, atMost/n, want)
		}
	}
}

// cumulated is the probability of at most mean.
func cumulated(mean float64) (p float64) {
	for k := 0.0; k <= mean; k++ {
		gamma, _ := math.Lgamma(k + 1)
		p += math.Exp(k*math.Log(mean) - mean - gamma)
	}
	return p
}

func TestPositivePoisson(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, mean := range []float64{0.0001, 0.02, 0.2, 3} {
		var draws []uint64
		sum := 0.0
		for range 100_000 {
			k := positivePoisson(rng, mean, math.Exp(-mean))
			draws, sum = append(draws, k), sum+float64(k)
		}
		want := mean / (1 - math.Exp(-mean))
		if got := sum / 1e5; math.Abs(got-want) > 5*math.Sqrt(want/1e5) || slices.Min(draws) < 1 {
			t.Errorf("mean %g: got %g, least %d; want %g", mean, got, slices.Min(draws), want)
		}
	}
}
