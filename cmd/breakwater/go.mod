module github.com/breakwater-go/breakwater/cmd/breakwater

go 1.26

require (
	github.com/breakwater-go/breakwater v0.0.0
	github.com/breakwater-go/breakwater/contrib/boltletters v0.0.0
	github.com/breakwater-go/breakwater/contrib/ottercache v0.0.0
	github.com/breakwater-go/breakwater/pgxread v0.0.0
	github.com/cloudevents/sdk-go/v2 v2.16.2
	github.com/jackc/pgx/v5 v5.13.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/term v0.45.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/maypok86/otter/v2 v2.4.0 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace (
	github.com/breakwater-go/breakwater => ../..
	github.com/breakwater-go/breakwater/contrib/boltletters => ../../contrib/boltletters
	github.com/breakwater-go/breakwater/contrib/ottercache => ../../contrib/ottercache
	github.com/breakwater-go/breakwater/pgxread => ../../pgxread
)
