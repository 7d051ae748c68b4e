// Guided scenarios: the page asks first what the next request will meet, then shows what it met.
import { ask, attempt } from './ask.js';
import { call } from './api.js';
import { attr, byId, changed, h, keyed, show } from './dom.js';
import { plural } from './format.js';
import { store, view } from './store.js';

export function scenarioBlock() {
  const el = h('div', { class: 'scenarios' });
  el.update = (lab) => keyed(el, lab.scenarios ?? [], (one) => one.name, row);
  return el;
}

function row(scenario) {
  const play = h('button', { type: 'button', class: 'tiny', 'aria-label': `Play: ${scenario.title}`, onclick: () => predict(scenario) }, 'Play');
  const el = h('div', { class: 'scenario' }, h('span', { class: 'title' }, scenario.title), h('p', {}, `${scenario.does}${scenario.seconds ? ` About ${scenario.seconds} s.` : ''}`), play);
  el.update = () => { play.disabled = view().status.lab.running?.state === 'running'; };
  return el;
}

function predict(scenario) {
  ask({
    title: scenario.title,
    body: [h('p', { class: 'quiet' }, scenario.does), h('p', {}, h('strong', {}, scenario.question || 'What will the next request meet?'))],
    fields: scenario.answers?.length ? [{ name: 'prediction', label: scenario.question, type: 'radio', options: scenario.answers.map((answer) => ({ value: answer, label: answer })) }] : [],
    yes: 'Run it',
    act: async ({ prediction = '' }) => {
      await call('POST', 'scenarios', { name: scenario.name, prediction });
      due = 'running';
    },
  });
}

const stateWords = { running: ['accent', '▸ Running'], passed: ['ok', '✓ Passed'], failed: ['bad', '✕ Failed'], stopped: ['', '■ Stopped'] };
const stacked = matchMedia('(max-width: 1180px)'); // as in frame.css: the rail stands below all else
let due = ''; // the state of a run that was asked for here, and is to be brought into sight: running, then ended
let closed = ''; // when the run began whose card was closed

// drawRun draws the card of the run under way, or of the newest: first in the rail, or where that is out of sight first of all.
export function drawRun(lab) {
  const el = byId('run');
  const r = lab?.running;
  el.hidden = !r || r.started === closed && r.state !== 'running' || Boolean(store.recorded);
  if (el.hidden) return;
  place(el);
  if (changed(el, r)) card(el, r, lab.scenarios?.find((one) => one.name === r.name));
  bringIntoSight(el, r);
}

function place(el) {
  const home = stacked.matches ? byId('frame') : byId('rail');
  if (home.firstElementChild !== el) home.prepend(el);
}

function card(el, r, scenario) {
  const [kind, word] = stateWords[r.state] ?? ['', r.state];
  const ended = r.state !== 'running';
  attr(el, 'class', `panel run ${ended ? kind : 'under-way'}`);
  show(el, h('div', { class: 'spread' }, h('h2', { id: 'run-h' }, scenario?.title ?? r.name), h('span', { class: `badge ${kind}` }, word)),
    r.step && h('p', { class: 'step', role: 'status' }, r.step), verdict(r), checks(r),
    ended && r.beside && h('p', { class: 'small' }, h('strong', {}, 'Without Breakwater: '), r.beside),
    ended && scenario?.shows && h('p', { class: 'small teaches' }, h('strong', {}, 'What it shows: '), scenario.shows),
    h('div', { class: 'row' }, ended ? button('Close', () => close(el, r)) : button('Stop', () => attempt(() => call('DELETE', 'scenarios'), 'Stopped and mended'))));
}

const button = (word, onclick) => h('button', { type: 'button', class: 'tiny', onclick }, word);

function close(el, r) {
  closed = r.started;
  el.hidden = true;
  byId('lab').querySelector(`.scenarios [data-key="${CSS.escape(r.name)}"] button`)?.focus();
}

// bringIntoSight does so once a run that was asked for here begins, and once it has ended. The focus goes to it when it begins only: it may be in use later.
function bringIntoSight(el, r) {
  const ended = r.state !== 'running';
  if (!due || due === 'ended' !== ended || document.querySelector('dialog[open]')) return;
  el.scrollIntoView({ block: 'start' });
  if (!ended) el.focus({ preventScroll: true });
  due = ended ? '' : 'ended';
}

function verdict(r) {
  if (!r.prediction && !r.answer) return null;
  const right = r.prediction && r.answer ? (r.prediction === r.answer ? ' ✓' : ' ✕') : '';
  return h('dl', { class: 'verdict' }, h('div', {}, h('dt', {}, 'You predicted'), h('dd', {}, `${r.prediction || 'nothing'}${right}`)), h('div', {}, h('dt', {}, 'It met'), h('dd', {}, r.answer || '…')));
}

function checks(r) {
  if (!r.results?.length) return null;
  const held = r.results.filter((c) => c.held).length;
  return [h('p', { class: 'quiet small' }, `${held} of ${plural(r.results.length, 'expectation')} held`), h('ul', { class: 'checks' }, r.results.map((c) => h('li', {},
    h('span', { class: c.held ? 'held-mark' : 'missed-mark' }, c.held ? '✓' : '✕', h('span', { class: 'unseen' }, c.held ? 'held' : 'missed')), h('span', {}, c.expected, h('span', { class: 'seen' }, c.seen)))))];
}
