package main

import "github.com/breakwater-go/breakwater/breaker"

func oursKeyed() []contender {
	return []contender{us("allow_done", "Get + Allow + Done", setAllowDone)}
}

func setAllowDone() (loop, error) {
	list := keys()
	set, err := breaker.NewSet(breaker.SetConfig[string]{Config: oursConfig(forever)})
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		set.Get(k)
	}
	return func(n int) (good int) {
		for i := range n {
			p, err := set.Get(list[i%keyCount]).Allow()
			if err == nil {
				p.Done(nil)
				good++
			}
		}
		return good
	}, nil
}
