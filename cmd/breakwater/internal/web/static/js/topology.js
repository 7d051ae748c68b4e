// The picture of the fleet: who sends how much to whom, where it hurts, and where somebody broke it.
import { attr, byId, changed, h, s, show } from './dom.js';
import { rate } from './format.js';
import { on, time, view } from './store.js';
import { conditionWord, faultName, refuses, stateWord } from './words.js';

const rowHeight = 44;
let width = 0;

export function start() {
  const svg = s('svg', { role: 'img' });
  const el = byId('topology');
  const broke = brokeKey();
  show(el, h('div', { class: 'head' }, h('h2', { id: 'topology-h' }, 'Traffic'), key(broke)), svg);
  const update = () => {
    broke.hidden = !view().status?.lab;
    draw(svg);
  };
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) < 2) return;
    width = entry.contentRect.width;
    update();
  }).observe(el);
  on('status', update);
  on('replay', update);
}

function key(broke) {
  const line = (cls) => s('svg', { viewBox: '0 0 26 12', 'aria-hidden': 'true' }, s('path', { class: `edge ${cls}`, d: 'M0 6H26', 'stroke-width': 4 }));
  return h('div', { class: 'key' }, h('span', {}, line(''), 'traffic'), h('span', {}, line('warn'), 'being tried'), h('span', {}, line('cut'), 'held back: it hurts here'), broke);
}

const brokeKey = () => h('span', { hidden: true }, s('svg', { viewBox: '0 0 26 12', 'aria-hidden': 'true' }, bolt(13, 6)), 'somebody broke it here');

const bolt = (x, y) => s('path', { class: 'broke', d: `M${x + 1.5} ${y - 7}l-6 8h4l-1.500 6 6-8h-4z` });

function draw(svg) {
  const { status, history } = view();
  if (!status || !width) return;
  const before = history.at(-2);
  const nodes = [...(status.primary ? [primary(status, before)] : []), ...(status.replicas ?? []).map((r) => replica(r, before, status))];
  const consumers = (status.consumers ?? []).map((c) => consumer(c, before, status));
  const who = center(status, consumers);
  if (!changed(svg, nodes, consumers, who, width)) return;
  const narrow = width < 620;
  const sides = narrow ? [{ items: [...nodes, ...consumers], right: true }] : [{ items: nodes, right: true }, { items: consumers, right: false }];
  const rows = Math.max(2, ...sides.map((side) => side.items.length));
  const height = rows * rowHeight + 6;
  const hubX = narrow ? 48 : consumers.length ? width / 2 : 150;
  attr(svg, 'viewBox', `0 0 ${width} ${height}`);
  attr(svg, 'aria-label', describe(nodes, consumers));
  const most = Math.max(1, ...nodes.map((n) => n.perSec ?? 0), ...consumers.map((c) => c.perSec));
  show(svg, sides.map((side) => side.items.map((item, i) => edge(item, i, side, height, hubX, most))),
    sides.map((side) => side.items.map((item, i) => node(item, rowY(i, side.items.length, height), side.right))), hub(hubX, height, narrow, who));
}

const boxWidth = () => Math.min(230, width * 0.52);
const rowY = (i, n, height) => height / 2 + (i - (n - 1) / 2) * rowHeight;

// center is who stands in the middle, by a short and a long name: an application with the library, or the daemon.
function center(status, consumers) {
  if (status.mode !== 'serve') return [['App', 'router'], ['Application', 'with its router']];
  return [['Daemon', ''], ['The daemon', consumers.length && status.replicas?.length ? 'samples, emits' : consumers.length ? 'emits' : 'samples']];
}

function hub(x, height, narrow, names) {
  const [name, below] = names[narrow ? 0 : 1];
  const half = narrow ? 42 : 62;
  return s('g', {}, s('rect', { class: 'node hub', x: x - half, y: height / 2 - 26, width: 2 * half, height: 52, rx: 12 }),
    s('text', { x, y: height / 2 - 3, 'text-anchor': 'middle', 'font-weight': 600 }, name),
    s('text', { class: 'sub', x, y: height / 2 + 14, 'text-anchor': 'middle' }, below));
}

function edge(item, i, side, height, hubX, most) {
  const y = rowY(i, side.items.length, height);
  const half = width < 620 ? 42 : 62;
  const from = side.right ? hubX + half : hubX - half;
  const to = side.right ? width - boxWidth() : boxWidth();
  const mid = (from + to) / 2;
  const start = height / 2 + (i - (side.items.length - 1) / 2) * Math.min(12, 44 / side.items.length);
  const path = `M${from} ${start}C${mid} ${start} ${mid} ${y} ${to} ${y}`;
  const kind = kindOfEdge(item);
  const weight = kind === '' || kind === 'warn' ? 1.5 + 8.5 * Math.sqrt((item.perSec ?? 0) / most) : undefined;
  return [s('path', { class: `edge ${kind}`, d: path, 'stroke-width': weight }), item.cut && cutMark(mid, (start + y) / 2)];
}

// kindOfEdge leaves the line of a node plain whose reads this process does not see.
function kindOfEdge(item) {
  if (item.cut) return 'cut';
  if (item.tried) return 'warn';
  if (item.perSec !== null && item.perSec <= 0) return 'idle';
  return item.kind === 'warn' ? 'warn' : '';
}

const cutMark = (x, y) => [s('circle', { class: 'gap', cx: x, cy: y, r: 8 }), s('path', { d: `M${x - 3.5} ${y - 3.5}l7 7m0 -7l-7 7`, class: 'gap', fill: 'none' })];

function node(item, y, right) {
  const w = boxWidth();
  const x = right ? width - w : 0;
  return s('g', { class: item.kind },
    s('rect', { class: 'node', x, y: y - 18, width: w, height: 36, rx: 9 }),
    s('text', { x: x + 12, y: y - 2, 'font-weight': 600 }, clip(item.name, w / 13)),
    s('text', { class: 'sub', x: x + 12, y: y + 12 }, clip(item.words, w / 8.2)),
    item.fault ? [bolt(x + w - 14, y - 5), s('text', { class: 'broke-text', x: x + w - 24, y: y - 2, 'text-anchor': 'end' }, item.fault)]
      : s('text', { class: 'sub', x: x + w - 12, y: y - 2, 'text-anchor': 'end' }, each(item)),
    item.fault && s('text', { class: 'sub', x: x + w - 12, y: y + 12, 'text-anchor': 'end' }, each(item)));
}

const each = (item) => (item.perSec === null ? '' : `${rate(item.perSec)}/s`);
const clip = (words, n) => (words.length > n ? `${words.slice(0, Math.floor(n) - 1)}…` : words);

function describe(nodes, consumers) {
  const one = (n) => `${n.name} ${n.words}${n.perSec === null ? '' : `, ${rate(n.perSec)} a second`}${n.fault ? `, broken on purpose: ${n.fault}` : ''}`;
  return `Traffic. Reads: ${nodes.map(one).join('; ') || 'none'}. Triggers: ${consumers.map(one).join('; ') || 'none'}.`;
}

const perSecond = (now, then, ms) => (then === undefined || ms <= 0 ? 0 : Math.max(0, Math.round((1000 * (now - then)) / ms)));
const since = (status, before) => (before ? time(status) - time(before) : 0);
const faultOf = (status, name) => { const f = status.lab?.faults?.find((one) => one.target === name); return f ? faultName(f.fault) : ''; };

function replica(r, before, status) {
  const then = before?.replicas?.find((one) => one.name === r.name)?.reads;
  const kind = kindOf(r.breaker.state) || (r.takes_reads ? '' : 'warn');
  const words = r.breaker.state === 'closed' && !r.takes_reads ? `no reads: ${conditionWord[r.condition] ?? r.condition}` : stateOf(r.breaker);
  return { name: r.name, words, kind, ...held(r.breaker), perSec: seen(status, perSecond(r.reads, then, since(status, before))), fault: faultOf(status, r.name) };
}

function primary(status, before) {
  const of = (st) => Object.values(st?.read_path?.reads ?? {}).reduce((sum, by) => sum + (by.primary ?? 0), 0);
  const p = status.primary;
  const well = p.condition === 'ok';
  return { name: p.name, words: well ? 'primary' : `primary: ${conditionWord[p.condition] ?? p.condition}`, kind: well ? '' : 'bad', cut: false,
    perSec: seen(status, perSecond(of(status), before ? of(before) : undefined, since(status, before))), fault: faultOf(status, p.name) };
}

function consumer(c, before, status) {
  const then = before?.consumers?.find((one) => one.name === c.name)?.delivered;
  const letters = c.depth.letters ? `, ${c.depth.letters} stored` : '';
  return { name: c.name, words: stateOf(c.breaker) + letters, kind: kindOf(c.breaker.state), ...held(c.breaker),
    perSec: perSecond(c.delivered, then, since(status, before)), fault: faultOf(status, c.name) };
}

// seen is a rate of reads, or null where this process sees none: a daemon samples, and others read.
const seen = (status, perSec) => (status.traffic ? perSec : null);
const held = (b) => ({ cut: refuses(b.state) && b.state !== 'half_open', tried: b.state === 'half_open' });
const stateOf = (b) => (b.state === 'half_open' && b.probes_of > 1 ? `being tried: ${b.probe_successes} of ${b.probes_of}` : stateWord[b.state].toLowerCase());

function kindOf(state) {
  if (state === 'open') return 'bad';
  if (state === 'half_open') return 'warn';
  return state === 'closed' ? '' : 'held';
}
