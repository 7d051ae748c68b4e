module github.com/breakwater-go/breakwater/dev

go 1.26

replace github.com/breakwater-go/breakwater => ..
