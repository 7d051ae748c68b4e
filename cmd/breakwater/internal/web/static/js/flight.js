// The traces of the seconds before a breaker opened, where the process keeps them: they are downloaded with the token, for `go tool trace`.
import { toast } from './ask.js';
import { Fault, get, request } from './api.js';
import { h, show } from './dom.js';
import { bytes, clock } from './format.js';

// traces lists those of a breaker once it is opened.
export function traces({ scope, name }) {
  const list = h('div', { class: 'snippets', role: 'status' });
  const el = h('details', { class: 'traces', ontoggle: () => el.open && fill(list, scope, name) }, h('summary', {}, 'Traces of the seconds before it opened'), list);
  return el;
}

async function fill(list, scope, name) {
  try {
    const { snapshots } = await get('flight');
    const mine = (snapshots ?? []).filter((one) => one.name === name && one.scope === scope);
    show(list, mine.length ? mine.map(row) : h('p', { class: 'quiet small' }, 'None is kept: it has not opened, or newer ones took their place.'));
  } catch (error) {
    const absent = error instanceof Fault && error.status === 404;
    show(list, h('p', { class: 'quiet small' }, absent ? 'This process keeps no traces.' : error.message));
  }
}

const row = (one) => h('div', { class: 'spread' }, h('span', { class: 'small' }, `${clock(one.at)}, ${one.reason}, ${bytes(one.bytes)}`),
  h('button', { type: 'button', class: 'tiny', 'aria-label': `Download the trace of ${clock(one.at)}`, onclick: () => save(one.id) }, 'Download'));

async function save(id) {
  try {
    const response = await request(`flight/${id}`);
    if (!response.ok) throw new Error('it has made room for a newer one');
    saveAs(await response.blob(), `breakwater-${id}.trace`);
  } catch (error) {
    toast(`The trace cannot be had: ${error.message}`, true);
  }
}

// saveAs hands a file to the browser's downloads.
export function saveAs(blob, name) {
  const link = h('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
