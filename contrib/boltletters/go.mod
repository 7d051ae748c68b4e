module github.com/breakwater-go/breakwater/contrib/boltletters

go 1.26

require (
	github.com/breakwater-go/breakwater v0.0.0-00010101000000-000000000000
	go.etcd.io/bbolt v1.5.0
)

require golang.org/x/sys v0.45.0 // indirect

replace github.com/breakwater-go/breakwater => ../..
