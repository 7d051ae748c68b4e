// The charts: strips with one time axis and one cursor. Each is a canvas for eyes, and a table for who wants figures (REQ-O3).
import uPlot from '../vendor/uplot/uPlot.esm.js';
import { segments, snippet } from './ask.js';
import { attr, byId, changed, h, s, show, text } from './dom.js';
import { chartDefs } from './chartdefs.js';
import { clock } from './format.js';
import { icon } from './icons.js';
import { on, setUI, span, store, time, view } from './store.js';
import { fill } from './stream.js';
import { color, onTheme } from './theme.js';
import { follow, startTimeline, gutter } from './timeline.js';

const height = 134;
const sync = uPlot.sync('breakwater');
const strips = [];

export const ranges = [[60, '1 min'], [300, '5 min'], [900, '15 min']];

export function start() {
  const range = segments('Range of the charts', ranges, store.ui.range, setRange);
  const pause = h('button', { type: 'button', class: 'tiny', id: 'pause', 'aria-pressed': 'false', onclick: togglePause });
  const lanes = startTimeline((at) => at === null ? leave() : point(at));
  const box = h('div', { class: 'strips' }, lanes, chartDefs.map((def) => strip(def).el));
  show(byId('charts'), h('div', { class: 'head' }, h('h2', { id: 'charts-h' }, 'The last minutes'), h('div', { class: 'row' }, range, pause)), box);
  const update = () => {
    range.choose(store.ui.range);
    attr(pause, 'aria-pressed', String(Boolean(store.ui.paused)));
    if (changed(pause, Boolean(store.ui.paused))) show(pause, icon(store.ui.paused ? 'play' : 'pause'), store.ui.paused ? 'Go on' : 'Pause');
    drawAll();
  };
  on('status', () => { young(); drawAll(); });
  on('events', drawAll);
  on('ui', update);
  on('replay', update);
  onTheme(() => { for (const one of strips) one.shape = ''; drawAll(); });
  update();
}

function setRange(seconds) {
  setUI({ range: seconds });
  if (!store.recorded) fill(seconds);
}

export function togglePause() {
  const { status } = view();
  setUI({ paused: store.ui.paused ? 0 : status ? time(status) : Date.now() });
}

// young shows the last minute of a process that has hardly more.
function young() {
  const { status } = view();
  if (!status || grown) return;
  grown = true;
  if (!location.hash.includes('range=') && time(status) - Date.parse(status.started) < 120000) setUI({ range: 60 });
}

let grown = false;
let due = false;

function drawAll() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    const { status, history } = view();
    if (!status) return;
    const { from, to } = span();
    const points = history.filter((st) => time(st) >= from - 2000 && time(st) <= to);
    for (const one of strips) draw(one, status, points, from, to);
    follow();
  });
}

function strip(def) {
  const legend = h('ul', { class: 'legend' });
  const plot = h('div', { class: 'plot', role: 'img' });
  const note = h('small');
  const table = h('div', { hidden: true });
  const toggle = h('button', { type: 'button', class: 'bare tiny', 'aria-pressed': 'false', 'aria-label': `${def.title} as a table`, onclick: flip }, icon('table'), 'Table');
  const el = h('section', { class: 'strip', id: `chart-${def.id}`, 'aria-labelledby': `h-${def.id}` },
    h('div', { class: 'head' }, h('h3', { id: `h-${def.id}` }, def.title, note), legend, toggle), plot, table);
  const one = { def, el, legend, plot, note, table, chart: null, shape: '', series: [], statuses: [] };
  function flip() {
    const asTable = table.hidden;
    table.hidden = !asTable;
    plot.hidden = asTable;
    attr(toggle, 'aria-pressed', String(asTable));
    drawAll();
  }
  new ResizeObserver(([entry]) => one.chart?.setSize({ width: entry.contentRect.width, height })).observe(plot);
  strips.push(one);
  return one;
}

function draw(one, status, points, from, to) {
  const { def } = one;
  one.el.hidden = !def.shown(status);
  if (one.el.hidden) return;
  const series = def.series(status);
  text(one.note, typeof def.note === 'function' ? def.note(status) : def.note);
  one.statuses = points;
  one.raw = series.map((line) => points.map((st, i) => line.value(st, points[i - 1])));
  const shape = JSON.stringify(series.map((line) => [line.key, line.color]));
  if (!one.table.hidden) drawTable(one, series);
  one.series = series;
  if (one.shape !== shape) build(one, shape);
  one.lines = def.lines(status);
  one.least = def.least(status);
  one.chart?.setData([points.map((st) => time(st) / 1000), ...(def.stacked ? stack(one.raw) : one.raw)], false);
  one.chart?.batch(() => {
    one.chart.setScale('x', { min: from / 1000, max: to / 1000 });
    one.chart.setScale('y', { min: 0, max: Math.max(one.least, 1.12 * highest(one)) });
  });
  label(one);
}

const highest = (one) => Math.max(0, ...(one.def.stacked ? stack(one.raw) : one.raw).flat().filter(Number.isFinite));

// stack adds each series to those before it; the last is on top.
function stack(columns) {
  const sums = [];
  return columns.map((column) => column.map((v, i) => (sums[i] = (sums[i] ?? 0) + (v ?? 0))));
}

function build(one, shape) {
  one.chart?.destroy();
  one.shape = shape;
  const width = one.plot.clientWidth;
  if (!width) { one.chart = null; one.shape = ''; return; }
  one.chart = new uPlot(options(one, width), [[], ...one.series.map(() => [])], one.plot);
  sync.sub(one.chart);
  drawLegend(one);
}

function options(one, width) {
  const grid = { stroke: color('line'), width: 1 };
  const axis = { stroke: color('ink-2'), font: '12px system-ui, sans-serif', grid, ticks: { show: false } };
  return {
    width, height, padding: [8, 6, 0, 0], legend: { show: false },
    cursor: { sync: { key: 'breakwater', setSeries: false }, drag: { x: false, y: false }, points: { show: false }, y: false },
    scales: { x: { time: true, auto: false }, y: one.def.log ? { auto: false, distr: 4, asinh: 50 } : { auto: false } },
    axes: [{ ...axis, size: 24, space: 90, values: clocks }, { ...axis, size: gutter, gap: 6, space: 26, filter: (u, splits) => splits, splits: one.def.log ? decades : undefined, values: (u, splits) => splits.map((v) => one.def.format(v)) }],
    series: [{}, ...one.series.map((line, i) => look(one, line, i))],
    bands: bands(one),
    hooks: { setCursor: [(u) => cursor(one, u)], draw: [(u) => lines(one, u)] },
  };
}

// clocks are the marks of time, but for one that the edge would cut off.
function clocks(u, splits) {
  const { min, max } = u.scales.x;
  const last = max - (22 * (max - min)) / u.width;
  return splits.map((t) => (t > last ? '' : clock(t * 1000)));
}

// decades are the marks of an axis that is short for long values.
function decades(u, axis, min, max) {
  const marks = max > 20000 ? [0, 100, 1000, 10000, 60000] : max >= 400 ? [0, 100, 500, 2000, 10000] : max > 60 ? [0, 50, 100, 200] : [0, 10, 25, 50];
  return marks.filter((v) => v <= max);
}

function look(one, line) {
  const stacked = one.def.stacked;
  return {
    label: line.key, stroke: color(line.color, line.faint ? 0.28 : 1), width: line.faint ? 1 : stacked ? 1 : 1.8, dash: line.dash, points: { show: false }, spanGaps: false,
    fill: stacked && line === one.series[0] ? color(line.color, 0.45) : line.fill ? color(line.color, 0.14) : undefined,
  };
}

function bands(one) {
  if (one.def.stacked) return one.series.slice(1).map((line, i) => ({ series: [i + 2, i + 1], fill: color(line.color, 0.45) }));
  return one.series.flatMap((line, i) => line.band ? [{ series: [i + 1, one.series.findIndex((other) => other.key === line.band) + 1], fill: color(line.color, 0.11) }] : []);
}

// lines draws the thresholds and the marks of faults over the plot.
function lines(one, u) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const ratio = devicePixelRatio;
  for (const line of one.lines ?? []) {
    const y = Math.round(u.valToPos(line.at, 'y', true)) + 0.5;
    stroke(ctx, color(line.color), [5 * ratio, 4 * ratio], bbox.left, y, bbox.left + bbox.width, y);
    ctx.fillStyle = color(line.color);
    ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = 'left';
    ctx.textBaseline = 'alphabetic'; // axes leave another
    ctx.fillText(line.label, bbox.left + 5 * ratio, y + (line.below ? 12 : -4) * ratio);
  }
  for (const e of view().events) {
    if (e.kind !== 'injected') continue;
    const x = Math.round(u.valToPos(Date.parse(e.at) / 1000, 'x', true)) + 0.5;
    stroke(ctx, color('held', 0.8), e.to === 'end' ? [2 * ratio, 3 * ratio] : [], x, bbox.top, x, bbox.top + bbox.height);
  }
  ctx.restore();
}

function stroke(ctx, style, dash, x1, y1, x2, y2) {
  ctx.strokeStyle = style;
  ctx.lineWidth = 1.2 * devicePixelRatio;
  ctx.setLineDash(dash);
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
  ctx.setLineDash([]);
}

function drawLegend(one) {
  one.values = one.series.map((line) => (line.label ? h('strong') : null));
  show(one.legend, one.series.map((line, i) => one.values[i] && h('li', {}, swatch(line), line.label, ' ', one.values[i])));
}

function swatch(line) {
  const mark = s('line', { x1: 0, x2: 22, y1: 5, y2: 5, 'stroke-dasharray': line.dash.join(' ') || undefined });
  mark.style.stroke = `var(--${line.color})`;
  return s('svg', { class: 'swatch', 'aria-hidden': 'true' }, mark);
}

function cursor(one, u) {
  if (u.cursor.left >= 0 && one.plot.matches(':hover')) follow(u.posToVal(u.cursor.left, 'x') * 1000);
  else if (u.cursor.left < 0) follow(null);
  values(one);
}

// values writes those at the cursor, or the newest.
function values(one) {
  const i = one.chart?.cursor.left >= 0 ? pointed(one) : one.statuses.length - 1;
  one.series.forEach((line, n) => one.values?.[n] && text(one.values[n], wordsAt(one, line, n, i)));
}

// pointed is the status under the cursor; -1 where there was none.
function pointed({ chart, statuses }) {
  const i = chart.cursor.idx ?? -1;
  const at = chart.posToVal(chart.cursor.left, 'x') * 1000;
  return statuses[i] && Math.abs(time(statuses[i]) - at) < 3000 ? i : -1;
}

function wordsAt(one, line, n, i) {
  if (line.words && one.statuses[i]) return line.words(one.statuses[i]);
  const v = one.raw[n]?.[i];
  return v === null || v === undefined ? '–' : one.def.format(v);
}

function label(one) {
  values(one);
  const last = one.statuses.length - 1;
  const now = one.series.map((line, n) => line.label && `${line.label} ${wordsAt(one, line, n, last)}`).filter(Boolean);
  attr(one.plot, 'aria-label', `${one.def.title}, the last ${store.ui.range / 60} minutes. Newest: ${now.join(', ')}.`);
}

// drawTable shows at most 30 rows over the range, newest first, and how to ask Prometheus for the same.
function drawTable(one, series) {
  const named = series.map((line, n) => ({ line, n })).filter(({ line }) => line.label);
  const step = Math.max(1, Math.floor(one.statuses.length / 30));
  const rows = one.statuses.map((st, i) => i).filter((i) => (one.statuses.length - 1 - i) % step === 0).reverse();
  const keep = one.table.querySelector('.scroll')?.scrollTop ?? 0;
  show(one.table, h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `${one.def.title}, table` },
    h('table', { class: 'data-table' }, h('caption', {}, `${one.def.title}, newest first`),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Time'), named.map(({ line }) => h('th', { scope: 'col' }, line.label)))),
      h('tbody', {}, rows.map((i) => h('tr', {}, h('td', {}, clock(one.statuses[i].at)), named.map(({ line, n }) => h('td', {}, wordsAt(one, line, n, i)))))))),
    h('details', {}, h('summary', {}, 'In PromQL'), snippet(one.def.promQL(), 'PromQL')));
  one.table.querySelector('.scroll').scrollTop = keep;
}

// point puts the shared cursor at a moment; leave takes it away.
function point(at) {
  for (const { chart } of strips) chart?.setCursor({ left: chart.valToPos(at / 1000, 'x'), top: 10 }, false);
  for (const one of strips) values(one);
}

function leave() {
  for (const one of strips) {
    one.chart?.setCursor({ left: -10, top: -10 }, false);
    values(one);
  }
}
