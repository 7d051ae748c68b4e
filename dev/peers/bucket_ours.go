package main

import "github.com/breakwater-go/breakwater/limit"

func oursBucket() []contender { return []contender{us("allow", "limit.Bucket, Allow", limitAllow)} }

func limitAllow() (loop, error) {
	b, err := limit.NewBucket(limit.BucketConfig{Rate: wideRate, Burst: wideRate})
	return func(n int) (good int) {
		for range n {
			if b.Allow() {
				good++
			}
		}
		return good
	}, err
}
