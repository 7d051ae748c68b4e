module github.com/breakwater-go/breakwater/pgxread

go 1.26

require github.com/jackc/pgx/v5 v5.13.0

replace github.com/breakwater-go/breakwater => ..
