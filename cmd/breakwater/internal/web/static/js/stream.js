// The event stream: server-sent events read from a fetch, because EventSource cannot send a token. It resumes where it broke off, and
// says honestly how the connection stands.
import { get, request } from './api.js';
import { addEvents, addHistory, addStatus, restart, store, tell } from './store.js';

const staleAfter = 3000; // three statuses missed
const silentAfter = 10000; // then it is given up and connected anew
let lastID = '';
let boot = '';
let abort = null;
let failures = 0;
let timer = 0;
let answered = () => {};

// start connects and stays connected; onEvents hears of events that are new.
export function start(onEvents) {
  answered = onEvents;
  setInterval(watch, 250);
  connect();
}

// stop ends it, for a recorded run; retry connects at once.
export function stop() {
  clearTimeout(timer);
  abort?.abort();
  abort = null;
}

export function retry() {
  stop();
  failures = 0;
  connect();
}

async function connect() {
  const mine = new AbortController();
  abort = mine;
  try {
    const headers = lastID ? { 'Last-Event-ID': lastID } : {};
    const response = await request('events', { headers, signal: mine.signal });
    if (response.status === 401 || response.status === 403) return denied();
    if (!response.ok) throw new Error(String(response.status));
    fill();
    await read(response.body.pipeThrough(new TextDecoderStream()).getReader());
    throw new Error('the stream ended');
  } catch {
    if (abort === mine) again();
  }
}

// fill asks for what was before, or was missed, so that the charts are full.
export async function fill(seconds = store.ui.range) {
  try {
    const missed = await get(`history?seconds=${Math.min(900, seconds)}`);
    if (Array.isArray(missed)) addHistory(missed);
  } catch {
    // the charts fill up as time passes
  }
}

async function read(reader) {
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value.replaceAll('\r\n', '\n')).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) take(block);
  }
}

function take(block) {
  let type = 'message';
  let id = null;
  const data = [];
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon === 0) continue; // a heartbeat
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') type = value;
    if (field === 'id') id = value;
    if (field === 'data') data.push(value);
  }
  if (id !== null) resumeAt(id);
  if (data.length) deliver(type, JSON.parse(data.join('\n')));
}

// resumeAt keeps the ID; one of another process (BOOT-N) begins anew.
function resumeAt(id) {
  const from = id.slice(0, Math.max(0, id.lastIndexOf('-')));
  if (boot && from !== boot && store.events.some((e) => !e.gap)) restart();
  boot = from;
  lastID = id;
}

function deliver(type, value) {
  if (type === 'status') {
    failures = 0;
    setLink('live', { heard: Date.now() });
    addStatus(value);
  } else if (type === 'event') {
    answered(addEvents([value]));
  } else if (type === 'gap') {
    if (value.restarted) restart();
    addEvents([{ gap: true, id: store.events.at(-1)?.id ?? 0, at: new Date().toISOString(), kind: 'gap', count: value.missed ?? 0, restarted: value.restarted }]);
  }
}

function again() {
  failures++;
  const wait = Math.min(10000, 250 * 2 ** Math.min(failures, 6)) * (0.75 + Math.random() / 2);
  setLink('disconnected', { retryAt: Date.now() + wait });
  timer = setTimeout(connect, wait);
}

function denied() {
  abort = null;
  setLink('denied', {});
}

function setLink(state, more) {
  store.link = { ...store.link, ...more, state };
  tell('link');
}

// watch turns a silent stream stale, and counts for the badge.
function watch() {
  if (store.recorded || store.link.state === 'denied') return;
  const silent = Date.now() - store.link.heard;
  if (store.link.state === 'live' && silent > staleAfter) setLink('stale', {});
  if (store.link.state === 'stale' && silent > silentAfter) {
    stop();
    again();
  }
  if (store.link.state !== 'live') tell('link');
}
