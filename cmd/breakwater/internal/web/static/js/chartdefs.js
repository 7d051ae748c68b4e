// What each chart shows. A chart: { id, title, note, unit, series(status), columns(history, series), lines(status), stacked }.
// A series: { key, label, color, dash, hidden, value(status, before) }.
import { duration, rate } from './format.js';
import { promQL } from './promql.js';
import { selected } from './store.js';

const dashes = [[], [6, 3], [2, 3], [9, 3, 2, 3]];
export const hue = (i) => ({ color: `c${(i % 8) + 1}`, dash: dashes[Math.floor(i / 2) % 4] });

const byName = (list, name) => list?.find((one) => one.name === name);
const orNull = (v) => (v === undefined || v === null || v === 'Infinity' ? null : v);

const staleness = {
  id: 'staleness', title: 'Staleness', note: 'of each replica, a band from Lo to Hi; the thresholds judge Lo', format: duration, log: true, promQL: promQL.staleness,
  shown: (st) => (st.replicas ?? []).length > 0,
  series: (st) => st.replicas.flatMap((r, i) => [
    { key: `${r.name} hi`, ...hue(i), faint: true, band: `${r.name} lo`, value: (s) => hiOf(byName(s.replicas, r.name)) },
    { key: `${r.name} lo`, label: r.name, ...hue(i), value: (s) => orNull(byName(s.replicas, r.name)?.lag_lo_ms), words: (s) => interval(byName(s.replicas, r.name)) },
  ]),
  lines: (st) => [st.settings?.trip_ms && { at: st.settings.trip_ms, label: 'trip', color: 'bad' }, st.settings && { at: st.settings.reenter_ms, label: 're-enter', color: 'ok', below: true }].filter(Boolean),
  least: (st) => 2 * (st.settings?.trip_ms ?? 500),
};

// hiOf is the upper bound; where there is none, that of the chart: the band is open above.
const hiOf = (r) => (r && r.lag_lo_ms !== null && r.lag_hi_ms === null ? Math.max(60000, r.lag_lo_ms) : orNull(r?.lag_hi_ms));
const interval = (r) => (!r || r.lag_lo_ms === null ? 'unknown' : r.lag_hi_ms === null ? `${duration(r.lag_lo_ms)}+` : `${duration(r.lag_lo_ms)} – ${duration(r.lag_hi_ms)}`);

const latency = {
  id: 'latency', title: 'Latency', format: duration, log: true, promQL: promQL.latency,
  note: (st) => { const b = selected(st); return timed(b) ? `of ${b.name}` : st.traffic ? 'of reads, and of each consumer' : 'of each consumer'; },
  shown: (st) => Boolean(st.traffic) || (st.consumers ?? []).length > 0 || (st.replicas ?? []).some((r) => r.breaker.latency),
  series: latencySeries,
  lines: (st) => { const b = selected(st); return timed(b) && b.owner.slow_ms ? [{ at: b.owner.slow_ms, label: 'slow', color: 'bad' }] : []; },
  least: () => 10,
};

// timed tells whether a breaker's calls are: a consumer's always are, though none may have been of late.
const timed = (b) => Boolean(b?.latency) || b?.scope === 'consumer';

// measured is null where no call was.
const measured = (latency, p) => (latency?.calls ? latency[p] : null);

function latencySeries(st) {
  const b = selected(st);
  const ps = [['p50_ms', 'P50'], ['p95_ms', 'P95'], ['p99_ms', 'P99']];
  if (timed(b)) {
    const list = b.scope === 'replica' ? 'replicas' : 'consumers';
    return ps.map(([p, label], i) => ({ key: label, label, color: 'c1', dash: dashes[2 - i], value: (s) => measured(byName(s[list], b.name)?.breaker.latency, p) }));
  }
  const reads = st.traffic ? ps.map(([p, label], i) => ({ key: `reads ${label}`, label: `reads ${label}`, color: 'c1', dash: dashes[2 - i], value: (s) => orNull(s.traffic?.[p]) })) : [];
  const owners = [...(st.traffic ? [] : st.replicas ?? []).filter((r) => r.breaker.latency), ...(st.consumers ?? [])];
  return [...reads, ...owners.map((c, i) => ({
    key: `${c.name} P99`, label: `${c.name} P99`, ...hue(i + 1), dash: [],
    value: (s) => measured((byName(s.consumers, c.name) ?? byName(s.replicas, c.name))?.breaker.latency, 'p99_ms'),
  }))];
}

const sourceNames = ['replica', 'primary', 'cache', 'default', 'shed', 'failed'];
const sourceColors = { replica: 'c1', primary: 'c2', cache: 'c3', default: 'c7', shed: 'c5', failed: 'bad' };

const sources = {
  id: 'sources', title: 'Reads by source', note: 'a second, stacked', format: rate, stacked: true, promQL: promQL.sources,
  shown: (st) => Boolean(st.traffic), // the daemon samples, and sees nobody's reads
  series: () => sourceNames.map((name) => ({
    key: name, label: name, color: sourceColors[name], dash: [], value: (s) => (s.traffic ? s.traffic.by_source?.[name] ?? 0 : null),
  })),
  lines: () => [], least: () => 10,
};

// burstOf is what this process has of it.
const burstOf = (st) => st.read_path.burst / Math.max(1, st.read_path.processes ?? 1);

const budget = {
  id: 'budget', title: 'Primary’s budget', note: 'tokens left for reads that fall back', format: rate, promQL: promQL.budget,
  shown: (st) => Boolean(st.read_path),
  series: () => [
    { key: 'tokens', label: 'tokens', color: 'c1', dash: [], fill: true, value: (s) => orNull(s.read_path?.budget_tokens) },
    { key: 'in fall-back', label: 'in fall-back', color: 'c2', dash: [6, 3], value: (s) => orNull(s.read_path?.in_fallback) },
  ],
  lines: (st) => [{ at: burstOf(st), label: 'burst', color: 'ink-3' }],
  least: (st) => 1.15 * burstOf(st),
};

const letters = {
  id: 'letters', title: 'Dead letters', note: 'stored for each consumer', format: rate, promQL: promQL.letters,
  shown: (st) => (st.consumers ?? []).length > 0,
  series: (st) => st.consumers.map((c, i) => ({ key: c.name, label: c.name, ...hue(i + 1), dash: [], value: (s) => orNull(byName(s.consumers, c.name)?.depth.letters) })),
  lines: () => [], least: () => 10,
};

export const chartDefs = [staleness, latency, sources, budget, letters];
