module github.com/breakwater-go/breakwater/pgxread

go 1.26

replace github.com/breakwater-go/breakwater => ..
