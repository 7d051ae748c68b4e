// What only the lab has: break things, send more or less, and see the same load without the library.
import { attempt, snippets } from './ask.js';
import { call, curl } from './api.js';
import { attr, byId, changed, h, keyed, show, text } from './dom.js';
import { duration, left, plural, rate } from './format.js';
import { icon } from './icons.js';
import { drawRun, scenarioBlock } from './scenarios.js';
import { on, store, time, view } from './store.js';
import { faultMeans, faultName } from './words.js';

const terms = [['10', '10 s'], ['30', '30 s'], ['60', '1 min'], ['0', 'until healed']];
const withAmount = new Set(['lag', 'slow', 'partly_slow']);
let built = false;
let forTime;
let amount;

export function start() {
  on('status', draw);
  on('replay', draw);
}

function draw() {
  const lab = view().status?.lab;
  const el = byId('lab');
  el.hidden = !lab || Boolean(store.recorded);
  drawRun(lab);
  if (el.hidden) return;
  if (!built) build(el);
  el.update(lab);
}

function build(el) {
  built = true;
  forTime = h('select', { 'aria-label': 'For how long' }, terms.map(([value, word]) => h('option', { value, selected: value === '30' }, word)));
  amount = h('input', { type: 'number', min: 1, max: 3600000, placeholder: 'as usual', 'aria-label': 'Lag or slowness in ms' });
  const targets = h('div', { class: 'targets' });
  const count = h('span', { class: 'badge held', hidden: true });
  const healing = h('button', { type: 'button', id: 'heal', onclick: heal }, icon('heal'), 'Heal everything');
  const scenarios = scenarioBlock();
  const load = loadBlock();
  show(el, h('div', { class: 'head' }, h('h2', { id: 'lab-h' }, 'Lab'), count),
    h('div', { class: 'block', id: 'faults' }, h('h3', {}, 'Break something'), h('div', { class: 'terms' }, h('label', { class: 'field' }, 'For', forTime), h('label', { class: 'field' }, 'Lag or slowness, ms', amount)), targets),
    h('div', { class: 'block' }, h('h3', {}, 'Scenarios'), scenarios), h('div', { class: 'block' }, h('h3', {}, 'Load'), load), h('div', { class: 'block' }, commands()), h('div', { class: 'heal' }, healing));
  el.update = (lab) => {
    const faults = lab.faults ?? [];
    count.hidden = faults.length === 0;
    text(count, `⚡ ${plural(faults.length, 'fault')} in force`);
    attr(healing, 'class', faults.length ? 'primary' : '');
    keyed(targets, lab.targets ?? [], (t) => t.name, target);
    scenarios.update(lab);
    load.update(lab, view().status);
  };
}

const commands = () => h('details', {}, h('summary', {}, 'Lines to copy: curl'), snippets([
  ['Break something', curl('POST', 'faults', { target: 'r1', fault: 'pause', duration_s: 30 })],
  ['Heal everything', curl('DELETE', 'faults')],
  ['Play a scenario', curl('POST', 'scenarios', { name: view().status.lab.scenarios?.[0]?.name ?? 'one-lagging' })],
  ['Change the load', curl('PATCH', 'load', { reads_per_sec: 500, unprotected: true })],
]));

function target({ name, faults }) {
  const buttons = faults.map((fault) => h('button', { type: 'button', class: 'tiny', 'data-fault': fault, 'aria-pressed': 'false', 'aria-label': `${faultName(fault)}: ${name}`, title: faultMeans[fault], onclick: () => inject(name, fault) }, faultName(fault)));
  const now = h('p', { class: 'now', hidden: true });
  const el = h('div', { class: 'target' }, h('span', { class: 'name' }, name), h('div', { class: 'buttons' }, buttons), now);
  el.update = () => {
    const { status } = view();
    const mine = (status.lab.faults ?? []).filter((f) => f.target === name);
    for (const b of buttons) attr(b, 'aria-pressed', String(mine.some((f) => f.fault === b.dataset.fault)));
    now.hidden = mine.length === 0;
    text(now, mine.map((f) => `⚡ ${faultName(f.fault)}${f.amount_ms ? ` ${duration(f.amount_ms)}` : ''}, ${f.until ? `${left(Date.parse(f.until) - time(status))} left` : 'until healed'}`).join('; '));
  };
  return el;
}

function inject(name, fault) {
  const body = { target: name, fault, duration_s: Number(forTime.value) };
  if (withAmount.has(fault) && amount.value) body.amount_ms = Number(amount.value);
  attempt(() => call('POST', 'faults', body), `${name}: ${faultName(fault)}`);
}

// heal mends everything.
export function heal() {
  if (!view().status?.lab || store.recorded) return;
  attempt(() => call('DELETE', 'faults'), 'Everything is mended');
}

export const focusFaults = () => document.querySelector('#faults .buttons button')?.focus();

const controls = [['reads_per_sec', 'Reads a second', 2000], ['writes_per_sec', 'Writes a second', 200], ['emits_per_sec', 'Emits a second', 2000]];

function loadBlock() {
  const sliders = controls.map(([key, label, max]) => slider(key, label, max, 10, rate));
  sliders.push(slider('own_writes', 'Own writes', 1, 0.05, (v) => `${Math.round(v * 100)} %`));
  const beside = h('input', { type: 'checkbox', onchange: () => attempt(() => call('PATCH', 'load', { unprotected: beside.checked })) });
  const table = h('div', { hidden: true });
  const el = h('div', { class: 'loads' }, sliders.map((one) => one.label), h('label', { class: 'check' }, beside, 'The same load without Breakwater, beside'), table);
  el.update = (lab, status) => {
    for (const one of sliders) one.update(lab.load);
    if (document.activeElement !== beside) beside.checked = lab.load.unprotected;
    table.hidden = !lab.unprotected || !status.traffic;
    if (!table.hidden) drawBeside(table, status.traffic, lab.unprotected);
  };
  return el;
}

function slider(key, label, max, step, words) {
  const output = h('output');
  const input = h('input', { type: 'range', min: 0, max, step, value: 0, oninput: () => text(output, words(Number(input.value))), onchange: () => attempt(() => call('PATCH', 'load', { [key]: Number(input.value) })) });
  return {
    label: h('label', {}, label, input, output),
    update: (load) => {
      if (document.activeElement === input && changed(input, load[key]) === false) return;
      const most = Math.max(max, load[key]);
      attr(input, 'max', most);
      input.value = load[key];
      text(output, words(load[key]));
    },
  };
}

const measures = [
  ['Stale answers a second', (t) => t.stale_per_sec, rate], ['Failed reads a second', (t) => t.by_source?.failed ?? 0, rate],
  ['P99 of reads', (t) => t.p99_ms, duration], ['P99 of emits', (t) => t.emit_p99_ms, duration],
];

function drawBeside(el, on1, off) {
  const rows = measures.map(([name, of, words]) => [name, words(of(on1)), words(of(off)), of(off) > of(on1) * 1.5 + 1]);
  if (!changed(el, rows)) return;
  show(el, h('table', { class: 'beside' }, h('caption', { class: 'unseen' }, 'The same load with and without Breakwater'),
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Now'), h('th', { scope: 'col' }, 'With'), h('th', { scope: 'col' }, 'Without'))),
    h('tbody', {}, rows.map(([name, a, b, worse]) => h('tr', {}, h('th', { scope: 'row' }, name), h('td', { class: worse ? 'better' : undefined }, a), h('td', { class: worse ? 'worse' : undefined }, worse ? `▲ ${b}` : b))))));
}
