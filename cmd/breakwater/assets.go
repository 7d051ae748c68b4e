package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/assets"
)

const assetsHelp = `Print what Breakwater brings for Prometheus and Grafana, to standard output. docs/metrics.md says what each metric
means and what to do.`

const alertsHelp = `Print alert rules for Prometheus 2.42 or newer.

Load them as a rule file:

  breakwater assets alerts > /etc/prometheus/breakwater.yml
  promtool check rules /etc/prometheus/breakwater.yml

then in prometheus.yml, after which Prometheus is told to read it again (SIGHUP):

  rule_files: [breakwater.yml]
  scrape_configs:
    - job_name: breakwater
      static_configs: [{targets: ["127.0.0.1:8080"]}]

The alert BreakwaterDown needs the job to have that name. The numbers to adjust to your traffic stand in the comments.`

const dashboardHelp = `Print a dashboard for Grafana 11 or newer, as JSON.

Load it by hand: Dashboards, New, Import, and paste it or upload the file; or from a file, by a provider of
type "file" under /etc/grafana/provisioning/dashboards whose path holds it:

  breakwater assets dashboard > /var/lib/grafana/dashboards/breakwater.json

It asks for a Prometheus data source, a job and instances at its top.`

func newAssets(out io.Writer) *cobra.Command {
	c := &cobra.Command{
		Use: "assets", Short: "Print alert rules for Prometheus, or a dashboard for Grafana", Long: assetsHelp, Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		newAsset("alerts", "Print alert rules for Prometheus", alertsHelp, assets.Alerts(), out),
		newAsset("dashboard", "Print a dashboard for Grafana", dashboardHelp, assets.Dashboard(), out),
	)
	return c
}

func newAsset(name, short, long, text string, out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long, Args: noCommand,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(out, text)
			return err
		},
	}
}
