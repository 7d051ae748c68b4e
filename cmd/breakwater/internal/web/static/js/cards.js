// The breaker cards, and the one of the read path.
import { attr, byId, changed, h, keyed, show, text } from './dom.js';
import { clock, count, duration, percent, plural, seconds } from './format.js';
import { gauge, meter } from './gauge.js';
import { stateIcon } from './icons.js';
import { machine } from './machine.js';
import { breakers, keyOf, on, setUI, store, view } from './store.js';
import { because, conditionWord, does, runbook, stateWord } from './words.js';
import { tuneBudget } from './actions.js';

export function start() {
  const replicas = groupOf('Replicas');
  const consumers = groupOf('Consumers');
  show(byId('breakers'), h('div', { class: 'head' }, h('h2', { id: 'breakers-h' }, 'Breakers')), replicas, consumers);
  const pathCard = readPathCard();
  const update = () => draw(replicas, consumers, pathCard);
  on('status', update);
  on('ui', update);
  on('replay', update);
}

function groupOf(title) {
  const cards = h('div', { class: 'cards' });
  const el = h('div', { class: 'group', hidden: true, 'data-group': title.toLowerCase() }, h('h3', {}, title), cards);
  el.cards = cards;
  return el;
}

function draw(replicas, consumers, pathCard) {
  const { status } = view();
  if (!status) return;
  const all = breakers(status).map((b, i) => ({ b, number: i + 1, status }));
  const of = (scope) => all.filter((c) => c.b.scope === scope);
  fillGroup(replicas, of('replica'), status.read_path && pathCard);
  fillGroup(consumers, of('consumer'));
  if (status.read_path) pathCard.update(status.read_path);
}

function fillGroup(group, items, last) {
  group.hidden = items.length === 0;
  last?.remove();
  keyed(group.cards, items, (c) => keyOf(c.b), card);
  if (last) group.cards.append(last);
}

// choose selects a breaker, or lets it go.
export function choose(key) {
  setUI({ select: store.ui.select === key ? '' : key });
}

function card({ b: { scope, name } }) {
  const key = keyOf({ scope, name });
  const iconAt = h('div');
  const word = h('span', { class: 'word' });
  const since = h('span', { class: 'for' });
  const number = h('span', { class: 'number', 'aria-hidden': 'true' });
  const open = h('button', { type: 'button', onclick: () => choose(key) }, name);
  const picture = machine();
  const reason = h('p', { class: 'reason' });
  const badges = h('div', { class: 'badges' });
  const bar = gauge();
  const figures = h('dl', { class: 'figures' });
  const el = h('article', {}, h('div', { class: 'card-head' }, iconAt, h('div', { class: 'who' }, h('h4', {}, open), h('p', {}, word, ' ', since)), number), picture, reason, bar, figures, badges);
  let shown = '';
  el.update = ({ b, number: n, status }) => {
    if (shown !== b.state) show(iconAt, stateIcon(shown = b.state));
    const chosen = store.ui.select === key || store.ui.select === name;
    attr(el, 'class', `card state-${b.state}${chosen ? ' chosen' : ''}`);
    attr(open, 'aria-expanded', String(chosen));
    text(word, stateWord[b.state] ?? b.state);
    text(since, `for ${seconds(b.in_state_ms)}, ${does(b)}`);
    text(number, n < 10 ? n : '');
    picture.update(b);
    drawReason(reason, b);
    drawBadges(badges, b);
    if (scope === 'replica') replicaParts(bar, figures, b, status);
    else consumerParts(bar, figures, b);
  };
  return el;
}

// drawReason says why the state is as it is: of a closed or half-open one why it opened last.
function drawReason(el, b) {
  const past = b.state === 'closed' || b.state === 'half_open';
  const reason = past ? b.last_trip?.reason : b.reason;
  if (!changed(el, b.state, reason, b.last_trip?.at)) return;
  if (!because(reason)) return void show(el, 'Has not opened since the start.');
  show(el, past ? `Opened last at ${clock(b.last_trip.at)}: ` : 'Why: ', h('strong', {}, because(reason)), b.state === 'open' && ['. ', runbook('breaker-open', 'What to do')]);
}

function drawBadges(el, b) {
  const o = b.owner;
  const badges = [];
  if (b.flapping) badges.push(['bad', '⇅ Flapping']);
  if (b.ramp_share < 1 && b.state === 'closed') badges.push(['warn', `◔ Ramp ${percent(b.ramp_share)}`]);
  if (b.scope === 'replica') replicaBadges(badges, b, o);
  else if (o.depth?.parked) badges.push(['warn', `▣ ${plural(o.depth.parked, 'parked letter')}`]);
  if (changed(el, badges)) show(el, badges.map(([kind, words]) => h('span', { class: `badge ${kind}` }, words)));
}

function replicaBadges(badges, b, o) {
  if (b.state === 'closed' && !o.takes_reads) badges.push(['warn', `▲ Takes no reads: ${conditionWord[o.condition] ?? o.condition}`]);
  else if (o.condition !== 'ok' && o.condition !== 'open') badges.push(['warn', `▲ ${conditionWord[o.condition] ?? o.condition}`]);
  if (o.replay_paused) badges.push(['warn', '❚❚ Replay paused']);
  if (o.receiver_down) badges.push(['warn', '⊘ Receiver down']);
  if (o.in_doubt) badges.push(['', '? In doubt: sampled fast']);
}

function replicaParts(bar, figures, b, { settings: set }) {
  const o = b.owner;
  const trip = set?.trip_ms ?? null;
  const lo = o.lag_lo_ms;
  const hi = o.lag_hi_ms;
  bar.draw({
    label: 'Staleness, Lo to Hi', value: interval(lo, hi), lo, hi,
    over: trip !== null && (lo === null || lo > trip),
    top: Math.max(5000, 1.3 * (set?.max_staleness_ms ?? 0), Math.min(60000, 1.1 * (lo ?? 0))),
    marks: [trip !== null && { at: trip, label: `trip ${duration(trip)}` }, set && { at: set.reenter_ms, soft: true }, set?.max_staleness_ms && { at: set.max_staleness_ms, soft: true, label: `limit ${duration(set.max_staleness_ms)}` }].filter(Boolean),
  });
  const seen = view().status.traffic ? [['Reads in flight', count(o.in_flight)]] : []; // else they are not of this process
  drawFigures(figures, [...seen, ['Share', percent(o.takes_reads ? o.share : 0)], ['Openings', count(b.openings)]]);
}

export function interval(lo, hi) {
  if (lo === null || lo === undefined) return 'unknown';
  if (hi === null || hi === undefined) return `${duration(lo)} or more`;
  return `${duration(lo)} – ${duration(hi)}`;
}

function consumerParts(bar, figures, b) {
  const o = b.owner;
  const p99 = b.latency?.calls ? b.latency.p99_ms : null;
  bar.draw({
    label: 'P99 against slow', value: p99 === null ? 'no calls' : duration(p99), lo: p99 === null ? null : 0, hi: p99 ?? 0,
    over: p99 !== null && p99 > o.slow_ms, top: Math.max(2.2 * o.slow_ms, 1.1 * o.timeout_ms, 1.1 * (p99 ?? 0)),
    marks: [{ at: o.slow_ms, label: `slow ${duration(o.slow_ms)}` }, { at: o.timeout_ms, soft: true, label: `timeout ${duration(o.timeout_ms)}` }],
  });
  drawFigures(figures, [['Dead letters', count(o.depth.letters)], ['In flight', `${count(o.in_flight)} of ${count(o.bulkhead)}`], ['Openings', count(b.openings)]]);
}

export function drawFigures(el, pairs) {
  if (el.children.length !== pairs.length) show(el, pairs.map(() => h('div', {}, h('dt'), h('dd'))));
  pairs.forEach(([name, value], i) => {
    text(el.children[i].firstChild, name);
    text(el.children[i].lastChild, value);
  });
}

function readPathCard() {
  const iconAt = h('div');
  const word = h('span', { class: 'word' });
  const since = h('span', { class: 'for' });
  const served = h('dl', { class: 'served' });
  const tokens = h('strong');
  const level = meter();
  const figures = h('dl', { class: 'figures' });
  const edit = h('button', { type: 'button', class: 'tiny', onclick: tuneBudget }, 'Change the budget');
  const el = h('article', {}, h('div', { class: 'card-head' }, iconAt, h('div', { class: 'who' }, h('h4', {}, 'Read path'), h('p', {}, word, ' ', since))),
    h('div', { class: 'level' }, served, h('div', { class: 'row' }, edit)),
    h('div', { class: 'level' }, h('div', { class: 'gauge' }, h('div', { class: 'label' }, h('span', {}, 'Primary’s budget'), tokens), level), figures));
  const warnings = h('div', { class: 'badges' });
  edit.after(warnings);
  el.dataset.key = 'read-path';
  let shown = '';
  el.update = (p) => {
    const like = { normal: 'closed', recovering: 'half_open', degraded: 'open' }[p.mode];
    if (shown !== p.mode) show(iconAt, stateIcon(like));
    shown = p.mode;
    attr(el, 'class', `card path-card state-${p.mode}`);
    text(word, p.mode === 'normal' ? 'Normal' : p.mode === 'degraded' ? 'Degraded' : 'Recovering');
    text(since, p.since ? `for ${seconds(Date.parse(view().status.at) - Date.parse(p.since))}` : 'since the start');
    drawServed(served, p);
    const burst = p.burst / Math.max(1, p.processes ?? 1);
    text(tokens, `${count(Math.floor(p.budget_tokens))} of ${count(burst)} tokens`);
    level.draw(p.budget_tokens / burst, p.budget_tokens < 0.1 * burst);
    drawFigures(figures, [['In fall-back', count(p.in_fallback)], ['Late reads', count(p.late_replica_reads)], ['Degraded, all', duration(p.degraded_for_ms)]]);
    edit.hidden = Boolean(store.recorded);
    const over = Object.entries(p.over_budget ?? {});
    if (changed(warnings, over)) show(warnings, over.map(([name, o]) => h('span', { class: 'badge warn' }, `▲ ${name}: ${count(o.rate_per_sec)} critical reads a second, over the budget of ${count(o.budget_per_sec)}`)));
  };
  return el;
}

function drawServed(el, p) {
  if (!changed(el, p.served, p.withheld)) return;
  show(el, ['critical', 'degradable', 'sheddable'].map((c) => h('div', {}, h('dt', {}, c), h('dd', { class: p.withheld?.includes(c) ? 'withheld' : undefined }, p.served?.[c] ?? '–'))));
}
