module github.com/breakwater-go/breakwater/dev

go 1.26

replace github.com/breakwater-go/breakwater => ..

require (
	github.com/breakwater-go/breakwater v0.0.0-00010101000000-000000000000
	pgregory.net/rapid v1.3.0
)
