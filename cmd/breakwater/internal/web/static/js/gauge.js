// A bar from Lo to Hi against its thresholds, and a plain meter.
import { attr, h, s, show, text } from './dom.js';

// gauge shows { label, value, lo, hi, marks: [{ at, label, soft }], over, top }; hi null: not bounded.
export function gauge() {
  const name = h('span');
  const value = h('strong');
  const svg = s('svg', { 'aria-hidden': 'true' });
  const el = h('div', { class: 'gauge' }, h('div', { class: 'label' }, name, value), svg);
  el.draw = (d) => {
    text(name, d.label);
    text(value, d.value);
    drawBar(svg, d);
  };
  return el;
}

function drawBar(svg, { lo, hi, marks, over, top }) {
  const at = (v) => 100 * Math.min(1, Math.max(0, scale(v) / scale(top)));
  const known = lo !== null && lo !== undefined;
  const from = known ? at(lo) : 0;
  const to = hi === null || hi === undefined ? 100 : at(hi);
  attr(svg, 'class', over ? 'over' : '');
  const key = JSON.stringify([from, to, marks, known]);
  if (svg.dataset.drawn === key) return;
  svg.dataset.drawn = key;
  show(svg,
    s('rect', { class: 'track', x: 0, y: 1, width: '100%', height: 7, rx: 3.5 }),
    known && s('rect', { class: 'span soft', x: 0, y: 1, width: pc(from), height: 7, rx: 3.5 }),
    known && s('rect', { class: 'span', x: pc(from), y: 1, width: pc(Math.max(1.2, to - from)), height: 7, rx: 3.5 }),
    placed(marks.map((m) => ({ ...m, x: at(m.at) })))
      .map(mark));
}

// placed has labels that would meet lean away from each other.
function placed(marks) {
  const named = marks.filter((m) => m.label).sort((a, b) => a.x - b.x);
  for (const m of named) m.anchor = m.x > 80 ? 'end' : m.x < 12 ? 'start' : 'middle';
  named.slice(1).forEach((m, i) => {
    if (m.x - named[i].x > 32) return;
    named[i].anchor = 'end';
    m.anchor = m.x > 80 ? undefined : 'start'; // no room: the line alone stands there
  });
  return marks;
}

function mark({ x, soft, label, anchor }) {
  return [
    s('line', { class: soft ? 'mark soft-mark' : 'mark', x1: pc(x), x2: pc(x), y1: 0, y2: 10.5 }),
    label && anchor && s('text', { x: pc(x), y: 21, 'text-anchor': anchor }, label),
  ];
}

const pc = (n) => `${n.toFixed(2)}%`;
const scale = (v) => Math.asinh(v / 100); // short lags and long ones in one bar

export function meter() {
  const rect = s('rect', { height: '100%', width: 0 });
  const el = h('div', { class: 'meter', 'aria-hidden': 'true' }, s('svg', {}, rect));
  el.draw = (share, low) => {
    attr(rect, 'width', `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`);
    attr(el, 'class', low ? 'meter low' : 'meter');
  };
  return el;
}
