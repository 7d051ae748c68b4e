// What the page knows: one object, and who wants to hear when a part of it changes.
// Topics: status (a new Status), events, link (how the connection stands), ui (what its user chose), replay (a recorded run).

export const store = {
  history: [], // Status by time, oldest first, at most 15 minutes
  events: [], // Event by ID
  link: { state: 'connecting', heard: 0 }, // connecting, live, stale, disconnected, denied
  recorded: null, // a run that was opened: { history, events, at, name }
  ui: { select: '', range: 300, filter: '', paused: 0, cursor: 0 },
};

export const keepSeconds = 900;
const keepEvents = 16384; // as many as the process keeps
const listeners = new Map();

export function on(topic, fn) {
  if (!listeners.has(topic)) listeners.set(topic, []);
  listeners.get(topic).push(fn);
}

export function tell(topic) {
  for (const fn of listeners.get(topic) ?? []) fn();
}

export function setUI(change) {
  Object.assign(store.ui, change);
  tell('ui');
}

export const time = (status) => status.ms ?? (status.ms = Date.parse(status.at));

export function addStatus(status) {
  const last = store.history.at(-1);
  if (last && time(last) >= time(status)) return;
  store.history.push(status);
  const oldest = time(status) - keepSeconds * 1000;
  while (time(store.history[0]) < oldest) store.history.shift();
  tell('status');
}

// addHistory puts in what was missed, wherever it belongs.
export function addHistory(missed) {
  const known = new Set(store.history.map(time));
  store.history.push(...missed.filter((status) => !known.has(time(status))));
  store.history.sort((a, b) => time(a) - time(b));
  if (store.history.length) tell('status');
}

export function addEvents(events) {
  const last = store.events.at(-1)?.id ?? 0;
  const fresh = events.filter((e) => e.id > last || e.gap);
  if (!fresh.length) return [];
  store.events.push(...fresh);
  if (store.events.length > keepEvents) store.events.splice(0, store.events.length - keepEvents);
  tell('events');
  return fresh;
}

// restart forgets what an earlier process told: its event IDs begin anew.
export function restart() {
  store.events.length = 0;
  tell('events');
}

// A view is what is shown: live, or a recorded run at the moment of its scrubber.
export function view() {
  const run = store.recorded;
  if (!run) return { history: store.history, events: store.events, status: store.history.at(-1), recorded: false };
  const end = lastAt(run.history, run.at);
  return {
    history: run.history.slice(0, end + 1),
    events: run.events.filter((e) => Date.parse(e.at) <= run.at),
    status: run.history[end],
    recorded: true,
  };
}

// lastAt is the index of the newest status at or before a moment; 0 where all are later.
export function lastAt(history, at) {
  let low = 0;
  let high = history.length - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (time(history[mid]) <= at) low = mid;
    else high = mid - 1;
  }
  return low;
}

// window is the span of time that the charts show, in ms.
export function span() {
  const { status } = view();
  const end = store.ui.paused || (status ? time(status) : Date.now());
  return { from: end - store.ui.range * 1000, to: end };
}

// fresh says that what is shown is of now.
export const fresh = () => !store.recorded && store.link.state === 'live';

// breakers are all of a status, replicas first, with whom they guard.
export function breakers(status) {
  if (!status) return [];
  const of = (list) => (list ?? []).map((owner) => ({ ...owner.breaker, owner }));
  return [...of(status.replicas), ...of(status.consumers)];
}

export const keyOf = (b) => `${b.scope}/${b.name}`;

export function selected(status) {
  return breakers(status).find((b) => keyOf(b) === store.ui.select || b.name === store.ui.select);
}
