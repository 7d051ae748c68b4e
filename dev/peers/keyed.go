package main

import (
	"strconv"
	"sync"

	"github.com/sony/gobreaker/v2"
)

// keyCount is a power of two, so that the next key costs a mask.
const keyCount = 1024

func keys() []string {
	list := make([]string, keyCount)
	for i := range list {
		list[i] = "tenant-" + strconv.Itoa(i)
	}
	return list
}

func keyedFloor() (loop, error) {
	list, index := keys(), new(sync.Map)
	for _, k := range list {
		index.Store(k, new(words))
	}
	return func(n int) (good int) {
		for i := range n {
			v, _ := index.Load(list[i%keyCount])
			if f, ok := v.(*words); ok && f.word.Load() == 0 {
				f.cell.Add(1)
				good++
			}
		}
		return good
	}, nil
}

// gobreakerKeyed is what its users write around it, having no set of their own.
func gobreakerKeyed() (loop, error) {
	list, index := keys(), new(sync.Map)
	for _, k := range list {
		index.Store(k, gobreaker.NewCircuitBreaker[int](gobreakerSettings(forever)))
	}
	return func(n int) (good int) {
		for i := range n {
			v, _ := index.Load(list[i%keyCount])
			if b, ok := v.(*gobreaker.CircuitBreaker[int]); ok {
				if _, err := b.Execute(one); err == nil {
					good++
				}
			}
		}
		return good
	}, nil
}
