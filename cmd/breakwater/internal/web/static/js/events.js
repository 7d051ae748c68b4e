// The event log, newest first.
import { announce, copy } from './ask.js';
import { attr, byId, h, keyed, show, text } from './dom.js';
import { clock, plural } from './format.js';
import { icon } from './icons.js';
import { on, setUI, store, view } from './store.js';
import { because, conditionWord, faultName, refuses, stateWord } from './words.js';

const most = 200; // rows
let held = 0; // the newest ID when the log was paused; 0: it runs
let kind = '';
let list;
let note;

const kinds = [['', 'All kinds'], ['transition', 'Transitions'], ['mode', 'Modes'], ['condition', 'Conditions'], ['injected', 'Faults of the lab'], ['action', 'Actions'], ['reload', 'Reloads'], ['dead', 'Shed and parked'], ['other', 'Others']];

export function start() {
  const filter = h('input', { id: 'filter', type: 'search', placeholder: 'Filter', 'aria-label': 'Filter events', value: store.ui.filter, oninput: () => setUI({ filter: filter.value }) });
  const choice = h('select', { 'aria-label': 'Kind of events', onchange: () => { kind = choice.value; draw(); } }, kinds.map(([value, label]) => h('option', { value }, label)));
  const pause = h('button', { type: 'button', class: 'tiny', 'aria-pressed': 'false', onclick: () => {
    held = held ? 0 : newest();
    attr(pause, 'aria-pressed', String(Boolean(held)));
    draw();
  } }, 'Pause');
  list = h('ol', { class: 'log', tabindex: 0, 'aria-label': 'Events, newest first' });
  note = h('p', { class: 'quiet small' });
  show(byId('events'), h('div', { class: 'head' }, h('h2', { id: 'events-h' }, 'Events'),
    h('div', { class: 'row' }, pause, h('button', { type: 'button', class: 'tiny', onclick: () => copy(JSON.stringify(shown(), null, 2), 'Events') }, icon('copy'), 'JSON'))),
  h('div', { class: 'filters' }, filter, choice), list, note);
  on('events', draw);
  on('replay', draw);
  on('ui', () => {
    if (document.activeElement !== filter) filter.value = store.ui.filter;
    draw();
  });
  draw();
}

const newest = () => view().events.at(-1)?.id ?? 0;

function shown() {
  const words = store.ui.filter.toLowerCase().split(/\s+/).filter(Boolean);
  return view().events.filter((e) => (!held || e.id <= held) && ofKind(e) && matches(e, words));
}

function ofKind(e) {
  if (!kind) return true;
  if (kind === 'dead') return e.kind === 'shed' || e.kind === 'parked';
  if (kind === 'other') return !kinds.some(([value]) => value === e.kind) && e.kind !== 'shed' && e.kind !== 'parked';
  return e.kind === kind;
}

function matches(e, words) {
  if (!words.length) return true;
  const { what, why } = describe(e);
  const all = `${e.kind} ${e.name ?? ''} ${what} ${why}`.toLowerCase();
  return words.every((word) => all.includes(word));
}

function draw() {
  const events = shown();
  keyed(list, events.slice(-most).reverse(), (e) => (e.gap ? `gap ${e.at}` : String(e.id)), row);
  const missed = held ? view().events.filter((e) => e.id > held).length : 0;
  text(note, [events.length ? '' : store.ui.filter || kind ? 'No event matches.' : 'Nothing has happened yet.', events.length > most ? `The newest ${most} of ${events.length}.` : '', missed ? `Paused: ${plural(missed, 'newer one')}.` : ''].filter(Boolean).join(' '));
}

function row(e) {
  const { what, why, tone, mark } = describe(e);
  return h('li', { class: tone }, h('time', { datetime: e.at, title: e.at }, clock(e.at)), h('span', { class: 'what' }, mark && h('span', { class: 'mark', 'aria-hidden': 'true' }, mark), what), why && h('span', { class: 'why' }, why));
}

// describe says an event in words: what, why, its tone and its mark.
export function describe(e) {
  const why = [e.text, e.error].filter(Boolean).join(' · ');
  switch (e.kind) {
    case 'transition': return transition(e);
    case 'would_open': return { what: `${e.name}: a rule on trial would have opened it`, why: reasonOf(e), tone: 'warn', mark: '△' };
    case 'condition': return { what: `${e.name}: ${conditionWord[e.to] ?? e.to}`, why: why || `before: ${conditionWord[e.from] ?? e.from}`, tone: e.to === 'ok' ? '' : 'warn', mark: e.to === 'ok' ? '' : '▲' };
    case 'mode': return { what: `Read path: ${e.to}`, why, tone: e.to === 'normal' ? 'ok' : e.to === 'degraded' ? 'bad' : 'warn', mark: e.to === 'normal' ? '●' : '■' };
    case 'over_budget': return { what: `${e.name || 'An endpoint'} is over the primary’s budget`, why, tone: 'warn', mark: '▲' };
    case 'shed': return { what: `${e.name}: ${plural(e.count || 1, 'trigger')} shed`, why, tone: 'bad', mark: '▼' };
    case 'parked': return { what: `${e.name}: ${plural(e.count || 1, 'letter')} parked`, why, tone: 'warn', mark: '▣' };
    case 'reload': return { what: e.error ? 'Configuration not taken' : 'Configuration read', why, tone: e.error ? 'bad' : '', mark: e.error ? '✕' : '↻' };
    case 'action': return { what: e.name ? `By hand: ${e.name}` : 'By hand', why, tone: 'held', mark: '☞' };
    case 'fault': return { what: 'A part of the process failed', why, tone: 'bad', mark: '✕' };
    case 'injected': return { what: e.to === 'end' ? `${e.name}: ${faultName(e.fault ?? 'fault')} ended` : `${e.name}: ${faultName(e.fault ?? 'fault')}`, why, tone: 'held', mark: e.to === 'end' ? '✓' : '⚡' };
    case 'scenario': return { what: `Scenario ${e.name}: ${e.to}`, why, tone: { passed: 'ok', failed: 'bad' }[e.to] ?? '', mark: { passed: '✓', failed: '✕' }[e.to] ?? '▸' };
    case 'stop': return { what: 'The process ends', why, tone: 'warn', mark: '■' };
    case 'gap': return e.restarted ? { what: 'The process was started anew', why: 'What it told before is gone.', tone: 'warn', mark: '…' } : { what: `${plural(e.count, 'event')} missed`, why: 'The page was away for longer than the process keeps them.', tone: 'warn', mark: '…' };
    default: return { what: [e.kind, e.name].filter(Boolean).join(' '), why, tone: '', mark: '' };
  }
}

function transition(e) {
  const tone = refuses(e.to) ? (e.to === 'half_open' ? 'warn' : 'bad') : e.to === 'closed' ? 'ok' : 'held';
  return { what: `${e.name}: ${(stateWord[e.to] ?? e.to).toLowerCase()}`, why: reasonOf(e), tone, mark: { closed: '●', half_open: '◐', open: '○' }[e.to] ?? '◆' };
}

const reasonOf = (e) => because(e.reason) || e.text || '';

// say tells new transitions to who cannot see the page.
export function say(fresh) {
  const told = fresh.filter((e) => e.kind === 'transition' || e.kind === 'mode').slice(-3);
  if (told.length) announce(told.map((e) => { const { what, why } = describe(e); return why ? `${what}, ${why}` : what; }).join('. '));
}
