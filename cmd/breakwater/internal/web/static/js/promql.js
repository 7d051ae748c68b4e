// The same questions for Prometheus, by the names that the daemon exports.
const label = (value) => JSON.stringify(value);

export const promQL = {
  state: (b) => `breakwater_breaker_state{scope=${label(b.scope)}, name=${label(b.name)}} == 1`,
  timeline: () => 'max by (scope, name, state) (breakwater_breaker_state) == 1',
  staleness: () => 'breakwater_replica_staleness_seconds{bound="hi"}',
  latency: () => 'histogram_quantile(0.99, sum by (name, le) (rate(breakwater_breaker_call_duration_seconds_bucket[1m])))',
  sources: () => 'sum by (source) (rate(breakwater_reads_total[1m]))',
  budget: () => 'breakwater_primary_budget_tokens',
  letters: () => 'sum by (consumer) (breakwater_dead_letters)',
};
