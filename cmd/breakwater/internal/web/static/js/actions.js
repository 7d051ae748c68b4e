// What an operator does to a breaker, and to the thresholds.
import { ask, attempt, copy, snippets, toast } from './ask.js';
import { call, curl } from './api.js';
import { h, show } from './dom.js';
import { duration, rate, yaml } from './format.js';
import { store, view } from './store.js';

export const pathOf = (b) => `breakers/${encodeURIComponent(b.name)}`;

export const forces = {
  forced_open: { label: 'Force open', danger: true, does: (b) => (b.scope === 'replica' ? 'It gets no reads until you give it back to its rules.' : 'Its triggers are stored as dead letters until you give it back to its rules.') },
  forced_closed: { label: 'Force closed', danger: true, does: () => 'No rule opens it until you give it back: calls go there even if they fail.' },
  disabled: { label: 'Disable', danger: true, does: () => 'Calls pass and are not measured until you give it back to its rules.' },
  auto: { label: 'Back to automatic', does: () => 'Its rules decide again, from a clean start.' },
};

export function force(b, to) {
  const f = forces[to];
  ask({
    title: `${f.label}: ${b.name}`,
    body: h('p', { class: 'quiet' }, f.does(b)),
    fields: [{ name: 'reason', label: 'Reason', required: true, hint: 'Stands in the event log and in the process’s log.' }],
    yes: f.label, danger: f.danger,
    act: async ({ reason }) => {
      await call('POST', pathOf(b), { state: to, reason });
      toast(`${b.name}: ${f.label.toLowerCase()}`);
    },
  });
}

// The settings that can be tuned: key of the interface, label, unit, key of the configuration file, least value.
const replicaFields = [
  ['trip_ms', 'Trip', 'ms', 'trip', 1], ['reenter_ms', 'Re-enter', 'ms', 'reenter', 10], ['breaches', 'Breaches in a row', '', 'breaches', 1],
  ['max_staleness_ms', 'Staleness limit', 'ms', 'max_staleness', 1], ['failures', 'Failures in a row', '', 'failures', 1],
  ['open_base_ms', 'Open base', 'ms', 'open.base', 1], ['open_max_ms', 'Open longest', 'ms', 'open.max', 1],
];
const consumerFields = [
  ['timeout_ms', 'Timeout', 'ms', 'timeout', 1], ['slow_ms', 'Slow', 'ms', 'slow', 1], ['bulkhead', 'Bulkhead', '', 'bulkhead', 1],
];

// editor is the form of thresholds of a breaker: all replicas share theirs.
export function editor(b) {
  const fields = b.scope === 'replica' ? replicaFields : consumerFields;
  const before = b.scope === 'replica' ? view().status.settings : b.owner;
  const preview = h('div', { class: 'preview', role: 'status' });
  const inputs = fields.map(([key, label, unit]) => field(key, label, unit, before[key]));
  const apply = h('button', { type: 'submit', class: 'primary' }, 'Apply');
  const form = h('form', { class: 'tuning-form', oninput: redraw, onsubmit: go, novalidate: true },
    h('div', { class: 'tuning' }, inputs.map((i) => i.label)), preview,
    h('div', { class: 'row' }, apply, h('button', { type: 'button', onclick: () => copy(asYAML(b, fields, values()), 'YAML') }, 'Copy as YAML')));
  redraw();
  return form;

  function values() {
    return Object.fromEntries(fields.map(([key], i) => [key, inputs[i].value()]));
  }
  function redraw() {
    const now = values();
    const faults = check(fields, now);
    const changes = fields.filter(([key]) => now[key] !== (before[key] ?? null));
    apply.disabled = faults.length > 0 || changes.length === 0;
    show(preview, h('strong', {}, 'What changes'), faults.map((f) => h('p', { class: 'fault' }, f)), !changes.length && h('p', { class: 'quiet' }, 'Nothing yet: change a value above.'),
      changes.map(([key, label, unit]) => h('p', {}, `${label}: `, h('del', {}, shown(before[key], unit)), ' → ', h('ins', {}, shown(now[key], unit)))),
      changes.length > 0 && !faults.length && effects(b, before, now).map((words) => h('p', { class: 'quiet' }, words)));
  }
  async function go(event) {
    event.preventDefault();
    const now = values();
    const patch = Object.fromEntries(fields.filter(([key]) => now[key] !== (before[key] ?? null)).map(([key]) => [key, now[key] ?? 'never']));
    if (await attempt(() => call('PATCH', pathOf(b), patch), 'Thresholds applied')) Object.assign(before, now);
    redraw();
  }
}

function field(key, label, unit, value) {
  const input = h('input', { name: key, type: 'number', inputmode: 'decimal', min: 0, step: 'any', value: value ?? '', placeholder: mayBeNever.has(key) ? 'never' : undefined });
  return { label: h('label', { class: 'field' }, `${label}${unit && `, ${unit}`}`, input), value: () => (input.value === '' ? null : Number(input.value)) };
}

const mayBeNever = new Set(['trip_ms', 'max_staleness_ms']);
const shown = (value, unit) => (value === null || value === undefined ? 'never' : unit === 'ms' ? duration(value) : String(value));

function check(fields, now) {
  const faults = fields.filter(([key, , unit, , least]) => (now[key] === null ? !mayBeNever.has(key) : !(now[key] >= least) || (unit === '' && !Number.isInteger(now[key]))))
    .map(([, label, unit, , least]) => `${label}: give ${unit ? `at least ${least} ${unit}` : `a whole number of at least ${least}`}`);
  if (now.trip_ms && now.reenter_ms > now.trip_ms) faults.push('Re-enter: give at most trip');
  if (now.open_base_ms > now.open_max_ms) faults.push('Open longest: give at least base');
  if (now.slow_ms > now.timeout_ms) faults.push('Slow: give at most timeout');
  return faults;
}

// effects says what the new values would mean for what is measured now.
function effects(b, before, now) {
  if (b.scope !== 'replica') return now.slow_ms !== before.slow_ms && b.latency ? [`Its P99 of ${duration(b.latency.p99_ms)} would be ${b.latency.p99_ms > now.slow_ms ? 'slow' : 'fine'}.`] : [];
  const words = ['All replicas share these.'];
  if (now.trip_ms !== before.trip_ms) {
    const late = (trip) => view().status.replicas.filter((r) => trip !== null && r.lag_lo_ms > trip).map((r) => r.name);
    const names = late(now.trip_ms);
    words.push(now.trip_ms === null ? 'Lag opens no breaker any more.' : names.length ? `Late by it now: ${names.join(', ')}.` : 'No replica is late by it now.');
  }
  return words;
}

// asYAML is what to write into the configuration file (docs/configuration.md).
function asYAML(b, fields, now) {
  const lines = b.scope === 'replica' ? ['settings:'] : ['consumers:', `  - name: ${b.name}`];
  const indent = b.scope === 'replica' ? '  ' : '    ';
  const open = [];
  for (const [key, , unit, name] of fields) {
    if (now[key] === undefined) continue;
    const value = unit === 'ms' ? yaml(now[key]) : now[key];
    if (name.startsWith('open.')) open.push(`${name.slice(5)}: ${value}`);
    else lines.push(`${indent}${name}: ${value}`);
  }
  if (open.length) lines.push(`${indent}open: {${open.join(', ')}}`);
  return `${lines.join('\n')}\n`;
}

// tuneBudget changes that of the read path (REQ-D9).
export function tuneBudget() {
  const p = view().status?.read_path;
  if (!p || store.recorded) return;
  ask({
    title: 'The primary’s budget for fall-back reads',
    body: [h('p', { class: 'quiet' }, `Now ${rate(p.rate_per_sec)} reads a second with a burst of ${rate(p.burst)}. The next reload of a file that says otherwise takes it back.`),
      h('details', {}, h('summary', {}, 'Lines to copy: YAML and curl'), snippets([['YAML', budgetYAML(p)], ['Change the budget', curl('PATCH', 'read-path', { rate_per_sec: p.rate_per_sec, burst: p.burst })]]))],
    fields: [{ name: 'rate', label: 'Reads a second', type: 'number', value: p.rate_per_sec, required: true }, { name: 'burst', label: 'Burst', type: 'number', value: p.burst, required: true }],
    yes: 'Apply',
    act: async (v) => {
      await call('PATCH', 'read-path', { rate_per_sec: Number(v.rate), burst: Number(v.burst) });
      toast('Budget applied');
    },
  });
}

const budgetYAML = (p) => `degraded_mode:\n  primary_read_budget: {rate_per_sec: ${p.rate_per_sec}, burst: ${p.burst}}\n`;
