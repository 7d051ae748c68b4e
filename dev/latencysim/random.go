package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// upTo draws a duration below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// between draws the time from one call to the next, of so many a second.
func between(rng *rand.Rand, rate float64) time.Duration {
	return 1 + time.Duration(rng.ExpFloat64()/rate*float64(time.Second))
}

// ptrsMean is the mean from which the transformed rejection is used.
const ptrsMean = 10

// poisson draws from a Poisson distribution.
func poisson(rng *rand.Rand, mean float64) uint64 {
	if mean < ptrsMean {
		return poissonByInversion(rng.Float64(), mean)
	}
	return poissonByRejection(rng, mean)
}

// poissonByInversion is the number of which u is the cumulated probability.
func poissonByInversion(u, mean float64) (k uint64) {
	for p := math.Exp(-mean); u > p && p > 0; p *= mean / float64(k) {
		u -= p
		k++
	}
	return k
}

// poissonByRejection is PTRS (Hörmann, 1993).
func poissonByRejection(rng *rand.Rand, mean float64) uint64 {
	b := 0.931 + 2.53*math.Sqrt(mean)
	a := -0.059 + 0.02483*b
	for {
		u, v := rng.Float64()-0.5, rng.Float64()
		us := 0.5 - math.Abs(u)
		k := math.Floor((2*a/us+b)*u + mean + 0.43)
		if us >= 0.07 && v <= 0.9277-3.6224/(b-2) {
			return uint64(k)
		}
		if k >= 0 && (us >= 0.013 || v <= us) && acceptsPoisson(us, v, k, a, b, mean) {
			return uint64(k)
		}
	}
}

func acceptsPoisson(us, v, k, a, b, mean float64) bool {
	gamma, _ := math.Lgamma(k + 1)
	alpha := 1.1239 + 1.1328/(b-3.4)
	return math.Log(v*alpha/(a/(us*us)+b)) <= k*math.Log(mean)-mean-gamma
}

// positivePoisson draws from a Poisson distribution without its 0, whose probability is none.
func positivePoisson(rng *rand.Rand, mean, none float64) uint64 {
	left := (1 - none) * (1 - rng.Float64())
	p := mean * none
	k := uint64(1)
	for ; left > p && p > 0; p *= mean / float64(k) {
		left -= p
		k++
	}
	return k
}
