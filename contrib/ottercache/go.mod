module github.com/breakwater-go/breakwater/contrib/ottercache

go 1.26

require (
	github.com/breakwater-go/breakwater v0.0.0-00010101000000-000000000000
	github.com/maypok86/otter/v2 v2.4.0
)

replace github.com/breakwater-go/breakwater => ../..
