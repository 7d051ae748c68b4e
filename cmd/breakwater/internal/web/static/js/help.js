// Keys and words.
import { modal } from './ask.js';
import { h } from './dom.js';
import { keysOn, setKeys } from './prefs.js';
import { store, view } from './store.js';
import { glossary } from './words.js';

const keys = [
  ['/', 'filter events'], ['1 – 9', 'select a breaker'], ['p', 'pause the charts, or go on'], ['f', 'go to the faults of the lab', true],
  ['h', 'heal everything in the lab', true], ['?', 'this help'], ['Esc', 'close, or let go of the selected breaker'],
];

export function help() {
  const inLab = Boolean(view().status?.lab) && !store.recorded;
  const on = h('input', { type: 'checkbox', checked: keysOn(), onchange: () => setKeys(on.checked) });
  const dialog = modal('Help', h('div', { class: 'inside' }, h('div', { class: 'spread' }, h('h2', {}, 'Help'), h('button', { type: 'button', class: 'primary', onclick: () => dialog.close() }, 'Close')),
    h('h3', {}, 'Keys'), h('dl', { class: 'keys' }, keys.filter(([, , ofLab]) => inLab || !ofLab).flatMap(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)])), h('label', { class: 'check' }, on, 'Single keys do this'),
    h('h3', {}, 'Words'), h('dl', { class: 'glossary' }, glossary.map(([word, means]) => h('div', {}, h('dt', {}, word), h('dd', {}, means))))), true);
}
