// Dead letters: how many, how old, why, and what an operator may do with them. A payload is asked for one by one, and shown as text.
import { ask, attempt, copy, modal, snippets, toast } from './ask.js';
import { call, curl, get } from './api.js';
import { attr, byId, changed, h, keyed, show, text } from './dom.js';
import { bytes, clock, count, date, duration, plural } from './format.js';
import { icon } from './icons.js';
import { on, store, view } from './store.js';
import { letterReason } from './words.js';

const page = 50;
let consumer = ''; // whose list is open
let filter = {};
let list;
let lots;

export function start() {
  lots = h('div', { class: 'lots' });
  list = h('div', { class: 'letters-list', hidden: true });
  show(byId('letters'), h('div', { class: 'head' }, h('h2', { id: 'letters-h' }, 'Dead letters'), h('p', { class: 'quiet small' }, 'Triggers that their consumers did not take')), lots, list);
  on('status', draw);
  on('replay', () => { close(); draw(); });
}

function draw() {
  const { status } = view();
  const consumers = status?.consumers ?? [];
  byId('letters').hidden = consumers.length === 0;
  keyed(lots, consumers, (c) => c.name, lot);
}

function lot({ name }) {
  const depth = h('span', { class: 'depth' });
  const age = h('p', { class: 'quiet small' });
  const parts = h('div', { class: 'badges' });
  const look = h('button', { type: 'button', class: 'tiny', 'aria-expanded': 'false', onclick: () => (consumer === name ? close() : open(name)) }, 'Show letters');
  const replayAll = h('button', { type: 'button', class: 'tiny', onclick: () => replay(name, {}, count(current(name).depth.letters)) }, 'Replay all');
  const discardAll = h('button', { type: 'button', class: 'tiny danger', onclick: () => discard(name, {}, count(current(name).depth.letters)) }, 'Discard all');
  const el = h('article', {}, h('div', { class: 'spread' }, h('h3', {}, name), depth), age, parts, h('div', { class: 'row' }, look, replayAll, discardAll));
  el.update = (c) => {
    const { letters } = c.depth;
    attr(el, 'class', consumer === name ? 'lot chosen' : 'lot');
    attr(look, 'aria-expanded', String(consumer === name));
    text(look, consumer === name ? 'Hide letters' : 'Show letters');
    text(depth, count(letters));
    text(age, letters ? `oldest ${duration(c.depth.oldest_age_ms)}, ${bytes(c.depth.bytes)}, ${durability(c.depth.durability)}` : `none, ${durability(c.depth.durability)}`);
    drawParts(parts, c);
    replayAll.hidden = discardAll.hidden = !letters || Boolean(store.recorded);
    look.hidden = Boolean(store.recorded);
  };
  return el;
}

const current = (name) => view().status.consumers.find((c) => c.name === name);
const durability = (word) => ({ in_memory: 'kept in memory', written: 'written to disk', synced: 'synced to disk' })[word] ?? word;

// drawParts groups them by priority, and what was stored since the start by reason.
function drawParts(el, c) {
  const by = Object.entries(c.depth.by_priority ?? {}).filter(([, n]) => n);
  const reasons = Object.entries(c.reasons ?? {}).filter(([, n]) => n).sort((a, b) => b[1] - a[1]).slice(0, 4);
  if (!changed(el, by, reasons, c.depth.parked)) return;
  show(el, c.depth.parked ? h('span', { class: 'badge warn' }, `▣ ${count(c.depth.parked)} parked`) : null,
    by.map(([p, n]) => h('span', { class: 'badge accent' }, `${p} ${count(n)}`)), reasons.map(([r, n]) => h('span', { class: 'badge', title: 'since the start' }, `${letterReason[r] ?? r} ${count(n)}`)));
}

function close() {
  consumer = '';
  list.hidden = true;
  show(list);
  draw();
}

function open(name) {
  consumer = name;
  filter = {};
  const choose = (key) => (event) => { filter[key] = event.target.value; load(); };
  const reasons = h('select', { onchange: choose('reason') }, h('option', { value: '' }, 'Any reason'), Object.entries(letterReason).map(([value, word]) => h('option', { value }, word)));
  const parked = h('select', { onchange: choose('parked') }, [['', 'Parked or not'], ['true', 'Parked'], ['false', 'Not parked']].map(([value, word]) => h('option', { value }, word)));
  const type = h('input', { type: 'search', placeholder: 'any', onchange: choose('type') });
  const key = h('input', { type: 'search', placeholder: 'any', onchange: choose('key') });
  show(list, h('div', { class: 'head' }, h('h3', {}, `Letters of ${name}`), h('div', { class: 'row' },
    h('button', { type: 'button', class: 'tiny', onclick: load }, 'Look again'),
    h('button', { type: 'button', class: 'tiny', onclick: () => replay(name, asFilter(), 'those that match') }, 'Replay these'),
    h('button', { type: 'button', class: 'tiny danger', onclick: () => discard(name, asFilter(), 'those that match') }, 'Discard these'))),
  h('div', { class: 'filters' }, labelled('Reason', reasons), labelled('Parked', parked), labelled('Type', type), labelled('Key', key)),
  h('div', { class: 'rows' }), commands(name));
  list.hidden = false;
  draw();
  load();
}

const labelled = (word, input) => h('label', { class: 'field' }, word, input);

// asFilter is what is chosen, as the interface takes it in a body.
function asFilter() {
  const f = {};
  if (filter.reason) f.reasons = [filter.reason];
  if (filter.type) f.types = [filter.type];
  if (filter.key) f.key = filter.key;
  if (filter.parked) f.parked = filter.parked === 'true';
  return f;
}

function query(more) {
  const q = new URLSearchParams({ consumer });
  for (const [key, value] of Object.entries({ ...filter, ...more })) if (value) q.set(key, value);
  return `dead-letters?${q}`;
}

async function load() {
  const rows = list.querySelector('.rows');
  const asked = consumer;
  try {
    const answer = await get(query({ limit: page }));
    if (asked === consumer) drawRows(rows, answer);
  } catch (error) {
    if (asked === consumer) show(rows, h('p', { class: 'empty' }, error.message));
  }
}

function drawRows(rows, { letters, next }) {
  if (!letters.length) return show(rows, h('p', { class: 'empty' }, 'No letter matches.'));
  return show(rows, h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Letters' }, h('table', { class: 'letter-table' },
    h('thead', {}, h('tr', {}, ['Letter', 'Why', 'Stored', 'Tries', ''].map((word) => h('th', { scope: 'col' }, word || h('span', { class: 'unseen' }, 'Actions'))))),
    h('tbody', {}, letters.map(letterRow)))), next ? h('p', { class: 'quiet small' }, `The oldest ${page}. Narrow the filter, or ask the interface for the rest.`) : null);
}

function letterRow(l) {
  const who = consumer;
  return h('tr', {}, h('td', {}, h('strong', {}, l.type), h('br'), h('span', { class: 'quiet small' }, [l.id, l.key && `key ${l.key}`].filter(Boolean).join(', '))),
    h('td', {}, letterReason[l.reason] ?? l.reason, l.parked && h('span', { class: 'badge warn' }, 'parked')), h('td', {}, clock(l.stored_at), h('br'), h('span', { class: 'quiet small' }, `${duration(l.age_ms)} ago`)), h('td', {}, count(l.attempts)),
    h('td', {}, h('button', { type: 'button', class: 'bare tiny', 'aria-label': `View ${l.id}`, onclick: () => viewLetter(who, l) }, 'View'),
      h('button', { type: 'button', class: 'bare tiny', 'aria-label': `Replay ${l.id}`, onclick: () => replay(who, { seq: l.seq }, '1') }, 'Replay'),
      h('button', { type: 'button', class: 'bare tiny', 'aria-label': `Discard ${l.id}`, onclick: () => discard(who, { seq: l.seq }, '1') }, 'Discard')));
}

async function viewLetter(who, { seq }) {
  try {
    const q = new URLSearchParams({ consumer: who, after: String(seq - 1), limit: '1', payload: '1' });
    const [l] = (await get(`dead-letters?${q}`)).letters;
    if (!l || l.seq !== seq) throw new Error('The letter is no longer stored.');
    showLetter(l);
  } catch (error) {
    toast(error.message, true);
  }
}

function showLetter(l) {
  const payload = l.payload ?? l.payload_base64 ?? '';
  const facts = [['ID', l.id], ['Type', l.type], ['Source', l.source], ['Subject', l.subject], ['Key', l.key], ['Priority', l.priority], ['Content type', l.content_type], ['Made', date(l.time)], ['Stored', date(l.stored_at)], ['Why', letterReason[l.reason] ?? l.reason]];
  const dialog = modal(`Letter ${l.id}`, h('div', { class: 'inside' }, h('h2', {}, `Letter ${l.id}`),
    h('dl', { class: 'keys' }, facts.filter(([, value]) => value).flatMap(([name, value]) => [h('dt', { class: 'quiet' }, name), h('dd', {}, value)])),
    h('div', { class: 'attempts' }, h('h3', {}, plural(l.attempts, 'try', 'tries')), (l.last_attempts ?? []).map((a) => h('p', { class: 'quiet' }, `${clock(a.at)}  ${a.error}`))),
    h('h3', {}, `Payload, ${bytes(l.bytes)}`, l.payload === undefined && l.payload_base64 ? ', in base64: it is no text' : '', l.payload_cut ? ', its beginning' : ''),
    h('pre', { class: 'payload', tabindex: 0, 'aria-label': 'Payload' }, payload || '(empty)'),
    h('div', { class: 'actions' }, h('button', { type: 'button', onclick: () => copy(payload, 'Payload') }, icon('copy'), 'Copy payload'), h('button', { type: 'button', class: 'primary', onclick: () => dialog.close() }, 'Close'))), true);
}

function replay(name, f, many) {
  ask({
    title: `Replay ${many} of ${name}`,
    body: h('p', { class: 'quiet' }, 'They are delivered at the pace of the lane, beside live traffic. Parked ones are tried too. A consumer may see a trigger twice.'),
    yes: 'Replay',
    act: () => act('POST', 'dead-letters/replay', { consumer: name, filter: f }, 'under way'),
  });
}

function discard(name, f, many) {
  ask({
    title: `Discard ${many} of ${name}`,
    body: h('p', {}, 'They are deleted for good: nobody gets these triggers any more.'),
    fields: [{ name: 'reason', label: 'Reason', required: true, hint: 'Stands in the event log.' }, { name: 'typed', label: `Type ${name} to confirm`, required: true }],
    yes: 'Discard', danger: true,
    act: async ({ reason, typed }) => {
      if (typed.trim() !== name) throw new Error(`Type ${name} to confirm.`);
      await act('DELETE', 'dead-letters', { consumer: name, filter: f, reason }, 'discarded');
    },
  });
}

async function act(method, path, body, done) {
  const answer = await call(method, path, body);
  toast(`${plural(answer?.letters ?? 0, 'letter')} ${done}`);
  if (consumer) attempt(load);
}

const commands = (name) => h('details', {}, h('summary', {}, 'Lines to copy: curl'), snippets([
  ['List', curl('GET', `dead-letters?consumer=${encodeURIComponent(name)}`)],
  ['Replay all', curl('POST', 'dead-letters/replay', { consumer: name, filter: {} })],
  ['Discard those that timed out', curl('DELETE', 'dead-letters', { consumer: name, filter: { reasons: ['timeout'] }, reason: 'why' })],
]));
