// The keyboard. Single keys can be switched off in the help, for whoever speaks to the machine.
import { byId } from './dom.js';
import { togglePause } from './charts.js';
import { choose } from './cards.js';
import { help } from './help.js';
import { focusFaults, heal } from './lab.js';
import { breakers, keyOf, setUI, store, view } from './store.js';
import { keysOn } from './prefs.js';

export function start() {
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape') return escape(event);
    if (!keysOn() || typing(event.target)) return;
    const act = actionOf(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

const typing = (el) => el.matches?.('input:not([type="checkbox"], [type="range"], [type="radio"]), textarea, select, [contenteditable]');

function escape(event) {
  if (event.target.matches?.('input')) event.target.blur();
  else if (store.ui.select) setUI({ select: '' });
}

function actionOf(key) {
  if (/^[1-9]$/.test(key)) return () => selectNth(Number(key));
  return { '/': () => byId('filter').focus(), p: togglePause, f: focusFaults, h: heal, '?': help }[key];
}

function selectNth(n) {
  const b = breakers(view().status)[n - 1];
  if (!b) return;
  choose(keyOf(b));
  document.querySelector(`[data-key="${CSS.escape(keyOf(b))}"] h4 button`)?.focus();
}
