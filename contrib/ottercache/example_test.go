package ottercache_test

import (
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/contrib/ottercache"
	"github.com/breakwater-go/breakwater/readpath"
)

// A readpath.Router fills and asks the cache; of two answers of a key the one that is current for longer stays.
func ExampleNew() {
	cache, err := ottercache.New(ottercache.Config{MaxEntries: 100_000})
	if err != nil {
		panic(err)
	}
	defer cache.Close()
	key, now := readpath.CacheKey{Endpoint: "product", Key: "7"}, time.Now()
	cache.Set(key, readpath.Entry{Value: "new", Current: now})
	cache.Set(key, readpath.Entry{Value: "old", Current: now.Add(-time.Second)})
	e, ok := cache.Get(key)
	fmt.Println(e.Value, ok)
	// Output: new true
}
