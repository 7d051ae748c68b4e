// Package assets is what Breakwater brings for Prometheus and Grafana (REQ-O2): alert rules and a dashboard.
//
// # Concurrency
//
// All functions may be called at any time from any goroutine.
package assets

import _ "embed" // the files

//go:embed alerts.yml
var alerts string

//go:embed dashboard.json
var dashboard string

// Alerts is a file of Prometheus rules.
func Alerts() string { return alerts }

// Dashboard is a Grafana dashboard to import.
func Dashboard() string { return dashboard }
