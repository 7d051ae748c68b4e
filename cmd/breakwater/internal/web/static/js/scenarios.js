// Guided scenarios: the page asks first what the next request will meet, then shows what it met.
import { ask, attempt } from './ask.js';
import { call } from './api.js';
import { changed, h, keyed, show } from './dom.js';
import { plural } from './format.js';
import { view } from './store.js';

export function scenarioBlock() {
  const run = h('div', { 'aria-live': 'polite' });
  const list = h('div', { class: 'scenarios' });
  const el = h('div', {}, run, list);
  el.update = (lab) => {
    drawRun(run, lab);
    keyed(list, lab.scenarios ?? [], (one) => one.name, row);
  };
  return el;
}

function row(scenario) {
  const play = h('button', { type: 'button', class: 'tiny', 'aria-label': `Play: ${scenario.title}`, onclick: () => predict(scenario) }, 'Play');
  const el = h('div', { class: 'scenario' }, h('span', { class: 'title' }, scenario.title), h('p', {}, `${scenario.shows}${scenario.seconds ? ` About ${scenario.seconds} s.` : ''}`), play);
  el.update = () => { play.disabled = view().status.lab.running?.state === 'running'; };
  return el;
}

function predict(scenario) {
  ask({
    title: scenario.title,
    body: [h('p', { class: 'quiet' }, scenario.shows), h('p', {}, h('strong', {}, scenario.question || 'What will the next request meet?'))],
    fields: scenario.answers?.length ? [{ name: 'prediction', label: scenario.question, type: 'radio', options: scenario.answers.map((answer) => ({ value: answer, label: answer })) }] : [],
    yes: 'Run it',
    act: ({ prediction = '' }) => call('POST', 'scenarios', { name: scenario.name, prediction }),
  });
}

const stateWords = { running: ['accent', '▸ Running'], passed: ['ok', '✓ Passed'], failed: ['bad', '✕ Failed'], stopped: ['', '■ Stopped'] };

function drawRun(el, lab) {
  const r = lab.running;
  if (!changed(el, r)) return;
  if (!r) return void show(el);
  const title = lab.scenarios?.find((one) => one.name === r.name)?.title ?? r.name;
  const [kind, word] = stateWords[r.state] ?? ['', r.state];
  show(el, h('div', { class: 'run' }, h('div', { class: 'spread' }, h('strong', {}, title), h('span', { class: `badge ${kind}` }, word)),
    r.step && h('p', { class: 'step' }, r.step), verdict(r), checks(r),
    r.state === 'running' && h('div', { class: 'row' }, h('button', { type: 'button', class: 'tiny', onclick: () => attempt(() => call('DELETE', 'scenarios'), 'Stopped and mended') }, 'Stop'))));
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
