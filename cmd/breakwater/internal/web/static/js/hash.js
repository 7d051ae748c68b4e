// The permanent link: what is selected, the range, and the filter stand behind the # of the address. Never a token.
import { ranges } from './charts.js';
import { on, setUI, store } from './store.js';

export function start() {
  read();
  addEventListener('hashchange', read);
  on('ui', write);
}

function read() {
  const q = new URLSearchParams(location.hash.slice(1));
  const range = Number(q.get('range'));
  setUI({ select: q.get('select') ?? '', filter: q.get('filter') ?? '', range: ranges.some(([s]) => s === range) ? range : 300 });
}

function write() {
  const { select, range, filter } = store.ui;
  const q = new URLSearchParams();
  if (select) q.set('select', select);
  if (range !== 300) q.set('range', range);
  if (filter) q.set('filter', filter);
  const hash = q.size ? `#${q.toString().replaceAll('%2F', '/')}` : '';
  if (location.hash !== hash) history.replaceState(null, '', `${location.pathname}${location.search}${hash}`);
}
