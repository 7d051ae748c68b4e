// The selected breaker: its figures, what an operator may do, its thresholds, and the same as lines to copy.
import { snippets } from './ask.js';
import { curl } from './api.js';
import { attr, byId, h, show, text } from './dom.js';
import { editor, force, forces, pathOf } from './actions.js';
import { drawFigures } from './cards.js';
import { clock, count, duration } from './format.js';
import { traces } from './flight.js';
import { icon } from './icons.js';
import { promQL } from './promql.js';
import { keyOf, on, selected, setUI, store, view } from './store.js';
import { because, stateWord } from './words.js';

let shownKey = '';
let parts = null;

export function start() {
  on('status', update);
  on('ui', update);
  on('replay', () => { shownKey = ''; update(); });
}

function update() {
  const el = byId('detail');
  const b = selected(view().status);
  el.hidden = !b;
  if (!b) {
    shownKey = '';
    return;
  }
  if (shownKey !== keyOf(b)) {
    shownKey = keyOf(b);
    document.querySelector(`[data-group="${b.scope}s"]`).append(el); // below the cards of its kind
    parts = build(el, b);
    requestAnimationFrame(() => el.scrollIntoView({ block: 'nearest' }));
  }
  draw(b);
}

function build(el, b) {
  const figures = h('dl', { class: 'figures' });
  const facts = h('p', { class: 'reason' });
  const buttons = Object.keys(forces).map((to) => h('button', { type: 'button', 'data-force': to, onclick: () => force(selected(view().status), to) }, forces[to].label));
  attr(el, 'aria-label', `Breaker of ${b.name}`);
  show(el,
    h('div', { class: 'head' }, h('h2', {}, b.name), h('button', { type: 'button', class: 'bare', 'aria-label': 'Close', onclick: () => setUI({ select: '' }) }, icon('close'))),
    h('div', { class: 'columns' },
      h('div', {}, facts, figures, !store.recorded && [h('h3', {}, 'Take it in hand'), h('div', { class: 'row' }, buttons), traces(b)], commands(b)),
      h('div', {}, !store.recorded && [h('h3', {}, b.scope === 'replica' ? 'Thresholds of all replicas' : 'Thresholds'), editor(b)])));
  return { figures, facts, buttons };
}

function commands(b) {
  const lines = [
    ...Object.keys(forces).map((to) => [forces[to].label, curl('POST', pathOf(b), { state: to, reason: 'why' })]),
    ['Change a threshold', curl('PATCH', pathOf(b), b.scope === 'replica' ? { trip_ms: 800 } : { slow_ms: 80 })],
    ['Its state, in PromQL', promQL.state(b)],
  ];
  return h('details', {}, h('summary', {}, 'Lines to copy: curl and PromQL'), snippets(lines));
}

function draw(b) {
  const { figures, facts, buttons } = parts;
  const at = b.last_trip ? `Opened last at ${clock(b.last_trip.at)}: ${because(b.last_trip.reason)}. ` : 'Has not opened since the start. ';
  text(facts, `${stateWord[b.state]} since ${clock(b.since)}, generation ${b.generation}. ${at}${detailOf(b)}`);
  drawFigures(figures, [
    ['Successes', count(b.successes)], ['Failures', count(b.failures)], ['Rejected', count(b.rejected)], ['Ignored', count(b.ignored)], ['Late results', count(b.late)],
    ['Openings', count(b.openings)], ['Would open', count(b.would_open)], ['Refusing, in all', duration(b.refusing_ms)], ...ofConsumer(b), ...latency(b),
  ]);
  for (const button of buttons) button.disabled = button.dataset.force === (b.state === 'closed' || b.state === 'open' || b.state === 'half_open' ? 'auto' : b.state);
}

const detailOf = (b) => (b.owner.detail ? `Its newest sample tells: ${b.owner.detail}.` : '');

function ofConsumer({ scope, owner }) {
  if (scope !== 'consumer') return [];
  return [['Emitted', count(owner.emitted)], ['Delivered', count(owner.delivered)], ['Stored', count(owner.stored)], ['Replayed', count(owner.replayed)], ['Shed', count(owner.shed)], ['Refused', count(owner.refused)]];
}

const latency = (b) => (b.latency?.calls ? [['P50', duration(b.latency.p50_ms)], ['P95', duration(b.latency.p95_ms)], ['P99', duration(b.latency.p99_ms)]] : []);
