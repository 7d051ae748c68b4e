// The whole in one sentence, and the banner of the degraded read path.
import { byId, changed, h, show, text } from './dom.js';
import { clock, count, list, plural, seconds, upper } from './format.js';
import { interval } from './cards.js';
import { icon } from './icons.js';
import { breakers, keyOf, on, setUI, time, view } from './store.js';
import { refuses, runbook, stateWord, trial } from './words.js';

export function start() {
  const title = h('h1', {}, 'Waiting for the first status');
  const below = h('p', {}, 'The page shows what the process tells once a second.');
  show(byId('summary'), title, below);
  const update = () => {
    const { status } = view();
    if (!status) return;
    drawHeadline(title, status);
    text(below, beneath(status));
    drawBanner(status);
  };
  on('status', update);
  on('replay', update);
}

function drawHeadline(el, status) {
  const held = heldBack(status);
  const words = held.length ? '' : headline(status);
  if (changed(el, held, words)) show(el, words || sentence(held));
}

function headline(status) {
  const idle = (status.replicas ?? []).filter((r) => !r.takes_reads).map((r) => r.name);
  if (idle.length) return `${list(idle)} ${idle.length === 1 ? 'takes' : 'take'} no reads.`;
  if (status.read_path?.mode === 'recovering') return 'The read path recovers.';
  const letters = lettersOf(status);
  if (letters) return `${plural(letters, 'dead letter')} to replay.`;
  return breakers(status).length ? 'All is well.' : 'Nothing is guarded yet.';
}

// heldBack are the breakers that refuse, by their states.
function heldBack(status) {
  const by = new Map();
  for (const b of breakers(status)) if (refuses(b.state)) by.set(b.state, [...(by.get(b.state) ?? []), { scope: b.scope, name: b.name }]);
  return [...by];
}

// sentence names them: "r2 is open, orders is half-open.", and each name leads to its card.
const sentence = (held) => [held.map(([state, who], i) => [i > 0 && ', ', named(who), ` ${who.length === 1 ? 'is' : 'are'} ${stateWord[state].toLowerCase()}`]), '.'];

function named(who) {
  const shown = who.length > 4 ? who.slice(0, 3) : who;
  const more = who.length - shown.length;
  const between = (i) => (i === 0 ? '' : i === shown.length - 1 && !more ? ' and ' : ', ');
  return [shown.map((b, i) => [between(i), link(b)]), more > 0 && ` and ${more} more`];
}

function link(b) {
  const key = keyOf(b);
  return h('a', { href: `#select=${key}`, onclick: (event) => {
    event.preventDefault();
    setUI({ select: key });
    document.querySelector(`.card[data-key="${CSS.escape(key)}"] h4 button`)?.focus();
  } }, b.name);
}

const lettersOf = (status) => (status.consumers ?? []).reduce((sum, c) => sum + c.depth.letters, 0);

function beneath(status) {
  const parts = [];
  const replicas = status.replicas ?? [];
  if (replicas.length) {
    const taking = replicas.filter((r) => r.takes_reads).length;
    parts.push(`${taking} of ${plural(replicas.length, 'replica')} ${taking === 1 ? 'takes' : 'take'} reads`);
  }
  if (status.read_path) parts.push(`the read path is ${status.read_path.mode}`);
  if (status.consumers?.length) {
    parts.push(...ofConsumers(status.consumers));
    const letters = lettersOf(status);
    parts.push(letters ? `${plural(count(letters), 'dead letter')} stored` : 'no dead letters');
  }
  return `${upper(parts.join(', '))}.`;
}

// ofConsumers tells apart who gets triggers and who is being tried; the rest is cut off.
function ofConsumers(consumers) {
  const tried = consumers.filter((c) => c.breaker.state === 'half_open');
  const well = consumers.filter((c) => !refuses(c.breaker.state)).length;
  const parts = tried.map((c) => `${c.name} is ${trial(c.breaker)}`);
  if (tried.length < consumers.length) parts.unshift(`${well} of ${plural(consumers.length, 'consumer')} ${well === 1 ? 'gets' : 'get'} triggers`);
  return parts;
}

function drawBanner(status) {
  const el = byId('banner');
  const p = status.read_path;
  const held = p && (p.degraded || p.mode !== 'normal');
  const reload = status.reload && (!status.reload.ok || status.reload.needs_restart?.length) ? status.reload : null;
  if (!changed(el, held && [p.mode, p.since, p.withheld, p.served, Math.floor(time(status) / 1000)], reload)) return;
  show(el, held && degraded(status, p), reload && reloadNotice(reload));
}

function degraded(status, p) {
  const since = p.since ? `${clock(p.since)}, for ${seconds(time(status) - Date.parse(p.since))}` : 'the start';
  const withheld = p.withheld ?? [];
  return h('section', { class: p.mode === 'degraded' ? 'notice bad' : 'notice', 'aria-labelledby': 'degraded-h' }, icon('alert'),
    h('div', {},
      h('h2', { id: 'degraded-h' }, p.mode === 'degraded' ? 'Degraded: no replica is fresh enough' : 'Recovering: classes get the replicas back one by one'),
      h('dl', {},
        pair('Since', since),
        pair('Withheld', withheld.length ? `${list(withheld)} reads` : 'none'),
        withheld.map((c) => pair(`${upper(c)} reads get`, p.served?.[c] ?? 'what their endpoint says')),
        pair('Staleness now', staleness(status)),
        pair('What to do', runbook('read-path-degraded', 'the runbook')))));
}

const pair = (name, value) => h('div', {}, h('dt', {}, `${name}:`), h('dd', {}, value));

// staleness is that of the freshest replica.
function staleness(status) {
  const known = (status.replicas ?? []).filter((r) => r.lag_lo_ms !== null && r.lag_lo_ms !== undefined);
  if (!known.length) return 'unknown';
  const best = known.reduce((a, b) => (b.lag_lo_ms < a.lag_lo_ms ? b : a));
  return `${interval(best.lag_lo_ms, best.lag_hi_ms)} at ${best.name}`;
}

function reloadNotice(reload) {
  return h('section', { class: 'notice', 'aria-labelledby': 'reload-h' }, icon('alert'),
    h('div', {}, h('h2', { id: 'reload-h' }, reload.ok ? 'Some settings wait for a restart' : 'The configuration file was not taken: the settings before stay in force'),
      h('dl', {}, pair('At', clock(reload.at)), reload.ok ? pair('Keys', list(reload.needs_restart)) : pair('Fault', reload.error ?? 'unknown'))));
}
