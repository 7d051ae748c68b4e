module github.com/breakwater-go/breakwater/cmd/breakwater

go 1.26

replace github.com/breakwater-go/breakwater => ../..
