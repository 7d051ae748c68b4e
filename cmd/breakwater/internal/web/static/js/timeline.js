// A lane for each breaker: when it was closed, half-open, open, or held by an operator; with the marks of faults on the same axis.
import { attr, changed, h, s, show } from './dom.js';
import { clock, duration } from './format.js';
import { breakers, keyOf, on, span, time, view } from './store.js';
import { choose } from './cards.js';
import { snippet, icon } from './ask.js';
import { promQL } from './promql.js';
import { faultName, stateWord } from './words.js';

// gutter is left of the plots: that of the charts' axis of values is the same, so that all stand under one another.
export const gutter = matchMedia('(max-width: 720px)').matches ? 58 : 86;
const right = 6;
const lane = 24;
const top = 33; // two rows of flags stand above

let svg;
let line;
let width = 0;
let shown = null;
let table;

export function startTimeline(point) {
  svg = s('svg', { class: 'lanes-svg', role: 'img' });
  table = h('div', { hidden: true });
  const plot = h('div', {}, svg);
  const toggle = h('button', { type: 'button', class: 'bare tiny', 'aria-pressed': 'false', 'aria-label': 'States as a table', onclick: () => {
    table.hidden = !table.hidden;
    plot.hidden = !table.hidden;
    attr(toggle, 'aria-pressed', String(!table.hidden));
    drawTable();
  } }, icon('table'), 'Table');
  const key = h('ul', { class: 'legend' }, [['closed', 'closed'], ['half_open', 'half-open'], ['open', 'open'], ['forced_open', 'held by an operator']].map(([state, word]) =>
    h('li', {}, s('svg', { class: 'swatch', 'aria-hidden': 'true' }, bandAt(state, 0, 22, 0, 10)), word)));
  const el = h('section', { class: 'strip lanes', id: 'chart-states', 'aria-labelledby': 'h-states' },
    h('div', { class: 'head' }, h('h3', { id: 'h-states' }, 'States', h('small', {}, 'of each breaker, with faults')), key, toggle), plot, table);
  svg.addEventListener('pointermove', (event) => move(event, point));
  svg.addEventListener('pointerleave', () => { follow(null); point(null); });
  svg.addEventListener('click', pick);
  new ResizeObserver(([entry]) => { width = entry.contentRect.width; draw(); }).observe(plot);
  for (const topic of ['status', 'events', 'ui', 'replay']) on(topic, () => requestAnimationFrame(() => { draw(); drawTable(); }));
  return el;
}

function move(event, point) {
  if (!shown) return;
  const x = event.clientX - svg.getBoundingClientRect().left;
  const at = shown.from + ((x - gutter) / (width - gutter - right)) * (shown.to - shown.from);
  const inside = at >= shown.from && at <= shown.to;
  follow(inside ? at : null);
  point(inside ? at : null);
}

function pick(event) {
  const y = event.clientY - svg.getBoundingClientRect().top;
  const b = breakers(view().status)[Math.floor((y - top) / lane)];
  if (b) choose(keyOf(b));
}

let cursorAt = null;

// follow draws the shared cursor at a moment; null takes it away; without a moment it stays.
export function follow(at = cursorAt) {
  cursorAt = at;
  if (!line || !shown) return;
  const x = at === null ? -99 : xOf(at);
  attr(line, 'x1', x);
  attr(line, 'x2', x);
}

const xOf = (at) => Number((gutter + ((at - shown.from) / (shown.to - shown.from)) * (width - gutter - right)).toFixed(1));

function draw() {
  const { status, events } = view();
  if (!status || width < 120) return;
  shown = span();
  const all = breakers(status);
  const height = top + all.length * lane + 20;
  attr(svg, 'viewBox', `0 0 ${width} ${height}`);
  attr(svg, 'height', height);
  attr(svg, 'aria-label', `States of the last minutes. ${all.map((b) => `${b.name} ${stateWord[b.state]} for ${duration(b.in_state_ms)}`).join(', ')}.`);
  line = s('line', { class: 'cursor', y1: top - 6, y2: height - 18, x1: -99, x2: -99 });
  show(svg, ticks(height), all.map((b, i) => drawLane(b, i)), marks(events, height), line);
  follow();
}

function ticks(height) {
  const seconds = (shown.to - shown.from) / 1000;
  const step = [10, 15, 30, 60, 120, 180, 300].find((one) => seconds / one <= Math.max(2, width / 130)) ?? 300;
  const at = [];
  for (let t = Math.ceil(shown.from / 1000 / step) * step; t * 1000 < shown.to; t += step) at.push(t * 1000);
  return at.map((t) => [s('line', { class: 'grid', x1: xOf(t), x2: xOf(t), y1: top - 4, y2: height - 18 }), s('text', { x: xOf(t), y: height - 4, 'text-anchor': 'middle' }, clock(t))]);
}

function drawLane(b, i) {
  const y = top + i * lane;
  const fits = Math.floor((gutter - 8) / 6.4);
  return [s('text', { class: 'name', x: 0, y: y + 15 }, b.name.length > fits ? `${b.name.slice(0, fits - 1)}…` : b.name, s('title', {}, b.name)),
    segmentsOf(b).map((seg) => bandAt(seg.state, xOf(seg.from), Math.max(1.5, xOf(seg.to) - xOf(seg.from)), y + 4, lane - 9))];
}

// A band has its height as its second sign beside its colour: closed is thin.
function bandAt(state, x, wide, y, high) {
  const part = state === 'closed' ? 0.36 : state === 'half_open' ? 0.68 : 1;
  return s('rect', { class: `band ${state}`, x, y: y + (high * (1 - part)) / 2, width: wide, height: high * part, rx: 1.5 });
}

// segmentsOf joins what the statuses of the window tell of a breaker; a change is put where "since" says.
function segmentsOf({ scope, name }) {
  const segs = [];
  for (const st of view().history) {
    if (time(st) < shown.from || time(st) > shown.to) continue;
    const b = (scope === 'replica' ? st.replicas : st.consumers)?.find((one) => one.name === name)?.breaker;
    if (!b) continue;
    const last = segs.at(-1);
    if (last?.state === b.state && time(st) - last.to < 5000) last.to = time(st);
    else segs.push(begin(b, st, last));
  }
  return segs;
}

function begin(b, st, last) {
  const since = Date.parse(b.since);
  const from = last && since > last.from && since < time(st) ? since : time(st);
  if (last && time(st) - last.to < 5000) last.to = from;
  return { state: b.state, from: Math.max(from, shown.from), to: time(st) };
}

function marks(events, height) {
  const free = [-99, -99]; // where the flags of each row end
  return events.filter((e) => e.kind === 'injected' && Date.parse(e.at) > shown.from && Date.parse(e.at) <= shown.to).map((e) => {
    const x = xOf(Date.parse(e.at));
    const words = e.to === 'end' ? '' : `${e.name} ${faultName(e.fault ?? '')}`;
    const end = x > width - 110;
    const long = words.length * 6.2 + 12;
    const row = words ? free.findIndex((to) => (end ? x - long : x) > to) : -1;
    if (row >= 0) free[row] = end ? x : x + long;
    return [s('line', { class: e.to === 'end' ? 'mark end' : 'mark', x1: x, x2: x, y1: row === 0 ? 13 : 26, y2: height - 18 }),
      row >= 0 && s('text', { class: 'flag', x: end ? x + 3 : x - 3, y: 10 + 13 * row, 'text-anchor': end ? 'end' : 'start' }, `⚡${words}`)];
  });
}

function drawTable() {
  const { status } = view();
  if (table.hidden || !status) return;
  shown = span();
  const rows = breakers(status).flatMap((b) => segmentsOf(b).map((seg) => ({ b, seg }))).sort((a, b) => b.seg.from - a.seg.from).slice(0, 60);
  if (!changed(table, rows.map(({ b, seg }) => [b.name, seg.state, seg.from]))) return;
  show(table, h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'States, table' }, h('table', { class: 'data-table' }, h('caption', {}, 'States, newest first'),
    h('thead', {}, h('tr', {}, ['Breaker', 'State', 'From', 'For'].map((word) => h('th', { scope: 'col' }, word)))),
    h('tbody', {}, rows.map(({ b, seg }) => h('tr', {}, h('td', {}, b.name), h('td', {}, stateWord[seg.state]), h('td', {}, clock(seg.from)), h('td', {}, duration(seg.to - seg.from))))))),
  h('details', {}, h('summary', {}, 'In PromQL'), snippet(promQL.timeline(), 'PromQL')));
}
