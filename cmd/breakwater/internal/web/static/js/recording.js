// A run as one file: it is exported, and opened again with a scrubber. What is shown then is plainly recorded.
import { toast } from './ask.js';
import { request } from './api.js';
import { attr, byId, h, show, text } from './dom.js';
import { date, duration } from './format.js';
import { saveAs } from './flight.js';
import { icon } from './icons.js';
import { setUI, store, tell, time } from './store.js';
import { retry, stop } from './stream.js';

const largest = 512 << 20;

export async function download() {
  try {
    const blob = store.recorded ? new Blob([JSON.stringify(store.recorded.file)], { type: 'application/json' }) : await exported();
    saveAs(blob, `breakwater-${new Date().toISOString().replaceAll(/[:.]/g, '')}.json`);
  } catch (error) {
    toast(`The run cannot be exported: ${error.message}`, true);
  }
}

async function exported() {
  const response = await request('export');
  if (!response.ok) throw new Error(`the answer was ${response.status}`);
  return response.blob();
}

export function chooseRun() {
  const input = h('input', { type: 'file', accept: '.json,application/json', id: 'run-file', hidden: true, onchange: () => { openRun(input.files[0]); input.remove(); } });
  document.body.append(input);
  input.click();
}

export function start() {
  let depth = 0;
  const drop = (on) => document.body.classList.toggle('dropping', on);
  addEventListener('dragenter', (event) => { event.preventDefault(); depth++; drop(true); });
  addEventListener('dragleave', () => { if (--depth <= 0) drop(false); });
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    event.preventDefault();
    depth = 0;
    drop(false);
    openRun(event.dataTransfer?.files[0]);
  });
}

async function openRun(file) {
  if (!file) return;
  try {
    if (file.size > largest) throw new Error('it is too large');
    openAs(file.name, check(JSON.parse(await file.text())));
  } catch (error) {
    toast(`${file.name} cannot be opened: ${error.message}`, true);
  }
}

// check takes only what an export writes.
function check(run) {
  if (run?.kind !== 'breakwater-run') throw new Error('it is no run of Breakwater');
  if (run.version !== 1) throw new Error(`its version is ${run.version}, this page reads 1`);
  if (!Array.isArray(run.history) || !run.history.length) throw new Error('it holds no history');
  if (!run.history.every((status) => Number.isFinite(time(status)))) throw new Error('a status has no time');
  return run;
}

function openAs(name, run) {
  clearInterval(playing);
  stop();
  store.recorded = { name, file: run, history: run.history, events: run.events ?? [], at: 0 };
  setUI({ paused: 0, select: '' });
  drawBar(name, run.history);
}

let playing = 0;

// drawBar has the scrubber: from status to status.
function drawBar(name, run) {
  const el = byId('recorded');
  const last = run.length - 1;
  const when = h('output', { class: 'small' });
  const scrubber = h('input', { type: 'range', id: 'scrubber', min: 0, max: last, step: 1, value: last, 'aria-label': 'Moment of the run', oninput: () => go(Number(scrubber.value)) });
  const play = h('button', { type: 'button', class: 'tiny', 'aria-pressed': 'false', onclick: toggle }, icon('play'), 'Play');
  el.hidden = false;
  show(el, h('div', { class: 'bar' }, h('strong', {}, 'RECORDED'), h('span', { class: 'small' }, `${name}, ${duration(time(run[last]) - time(run[0]))}`), play, scrubber, when,
    h('button', { type: 'button', class: 'tiny', id: 'close-run', onclick: close }, 'Back to live')));
  go(last);

  function go(i) {
    scrubber.value = i;
    store.recorded.at = time(run[i]);
    text(when, date(store.recorded.at));
    attr(scrubber, 'aria-valuetext', date(store.recorded.at));
    tell('replay');
  }
  function toggle() {
    clearInterval(playing);
    const starting = play.getAttribute('aria-pressed') === 'false';
    attr(play, 'aria-pressed', String(starting));
    show(play, icon(starting ? 'pause' : 'play'), starting ? 'Pause' : 'Play');
    if (starting && Number(scrubber.value) === last) go(0);
    if (starting) playing = setInterval(step, 250); // four times as fast as it was
  }
  function step() {
    go(Math.min(last, Number(scrubber.value) + 1));
    if (Number(scrubber.value) === last) toggle();
  }
}

function close() {
  clearInterval(playing);
  store.recorded = null;
  byId('recorded').hidden = true;
  show(byId('recorded'));
  setUI({ select: '' });
  tell('replay');
  store.link = { state: 'connecting', heard: store.link.heard };
  tell('link');
  retry();
}
