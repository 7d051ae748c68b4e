// The header: what runs, how fresh the page is, and what can be done with the whole.
import { ask, copy } from './ask.js';
import { setToken, hasToken } from './api.js';
import { attr, byId, changed, h, show, text } from './dom.js';
import { date, duration, plural, seconds } from './format.js';
import { icon } from './icons.js';
import { help } from './help.js';
import { chooseRun, download } from './recording.js';
import { on, store, time, view } from './store.js';
import { retry } from './stream.js';
import { nextTheme, themeNow } from './theme.js';

export function start() {
  const facts = h('div', { class: 'facts', id: 'facts' });
  const badge = h('span', { class: 'badge link-badge', id: 'link' }, h('span', { class: 'dot', 'aria-hidden': 'true' }), h('span', { class: 'words-of-link' }));
  const theme = h('button', { type: 'button', class: 'bare', id: 'theme', onclick: () => { nextTheme(); drawTheme(theme); } });
  show(byId('header'), h('div', { class: 'bar' },
    h('a', { class: 'brand', href: '#' }, h('img', { src: 'icon.svg', alt: '' }), 'Breakwater'), facts, nav(),
    h('div', { class: 'tools' }, badge,
      tool('link', 'Copy link', () => copy(location.href, 'Link')),
      tool('down', 'Export', download),
      tool('open', 'Open a run', chooseRun),
      theme, tool('help', 'Help', help))));
  drawTheme(theme);
  on('status', () => drawFacts(facts));
  on('replay', () => drawFacts(facts));
  on('link', () => drawLink(badge));
  on('replay', () => drawLink(badge));
  drawLink(badge);
}

// nav leads to the parts; below on a phone.
function nav() {
  const links = [['breakers', 'Breakers'], ['charts', 'Charts'], ['events', 'Events'], ['letters', 'Letters'], ['lab', 'Lab']].map(([id, word]) =>
    h('a', { href: `#${id}`, 'data-part': id, onclick: (event) => { event.preventDefault(); byId(id).scrollIntoView({ behavior: 'smooth', block: 'start' }); } }, word));
  on('status', () => { for (const link of links) link.hidden = byId(link.dataset.part).hidden; });
  return h('nav', { class: 'parts', 'aria-label': 'Parts of the page' }, links);
}

function tool(shape, label, act) {
  return h('button', { type: 'button', class: 'bare', title: label, 'aria-label': label, onclick: act }, icon(shape));
}

function drawTheme(button) {
  const now = themeNow();
  attr(button, 'aria-label', `Colours: ${now}. Change`);
  attr(button, 'title', `Colours: ${now}`);
  show(button, icon({ system: 'auto', light: 'sun', dark: 'moon' }[now]));
}

function drawFacts(el) {
  const { status } = view();
  if (!status) return;
  placeEvents(status);
  document.title = `${status.fleet || 'Breakwater'} · Breakwater`;
  if (changed(el, status.mode, status.fleet, status.simulated)) {
    show(el, h('span', { class: 'badge', id: 'mode' }, status.mode === 'lab' ? 'Lab' : 'Serve'),
      status.simulated ? h('span', { class: 'badge held loud', id: 'simulated', title: 'No PostgreSQL runs here: the replicas are simulated in the process' }, 'SIMULATED FLEET') : h('span', { id: 'fleet' }, fleetName(status.fleet)));
  }
  drawFooter(status);
}

const fleetName = (fleet) => fleet.replace(/^postgres/, 'PostgreSQL');

// placeEvents puts the log beside the breakers, but where the lab stands there: then it comes below the charts.
function placeEvents(status) {
  const events = byId('events');
  const inLab = Boolean(status.lab) && !store.recorded;
  const home = inLab ? byId('main') : byId('rail');
  if (events.parentElement !== home) home.insertBefore(events, inLab ? byId('letters') : null);
}

function drawFooter(status) {
  const el = byId('footer');
  const parts = [`Breakwater ${status.version}`, status.config_hash && `configuration ${status.config_hash.slice(0, 12)}`,
    `up ${duration(time(status) - Date.parse(status.started))}`, `started ${date(status.started)}`, `${status.stream?.clients ?? 0} watching`,
    status.reload?.reloads ? `reloaded ${plural(status.reload.reloads, 'time')}` : '', status.stream?.cut_off ? `${status.stream.cut_off} cut off` : ''].filter(Boolean);
  if (el.children.length !== parts.length) show(el, parts.map((words) => h('span', {}, words)));
  parts.forEach((words, i) => text(el.children[i], words));
}

// drawLink says how fresh the page is (nothing is shown as fresh that is not).
function drawLink(badge) {
  const { state, heard, retryAt } = store.link;
  const [kind, words] = wording(state, heard ? Date.now() - heard : null, retryAt);
  document.body.dataset.link = store.recorded ? 'recorded' : state;
  document.body.toggleAttribute('data-recorded', Boolean(store.recorded));
  attr(badge, 'class', `badge link-badge ${kind}`);
  text(badge.lastChild, words);
  if (state === 'denied' && !store.recorded) askToken();
}

function wording(state, silent, retryAt) {
  const since = silent === null ? '' : ` since ${seconds(silent)}`;
  switch (store.recorded ? 'recorded' : state) {
    case 'recorded': return ['held', 'Recorded'];
    case 'live': return ['ok', 'Live'];
    case 'stale': return ['warn', `Stale${since}`];
    case 'disconnected': return ['bad', `Disconnected${since}, again in ${seconds(Math.max(0, retryAt - Date.now()))}`];
    case 'denied': return ['bad', 'Token needed'];
    default: return ['', 'Connecting'];
  }
}

let asking = null;

function askToken() {
  if (asking?.isConnected) return;
  asking = ask({
    title: 'A token is needed',
    body: h('p', { class: 'quiet' }, hasToken() ? 'The token was not accepted. ' : '', 'Give the bearer token of this process. It stays in this tab and never stands in an address.'),
    fields: [{ name: 'token', label: 'Token', type: 'password', required: true }],
    yes: 'Connect',
    act: ({ token }) => { setToken(token.trim()); store.link.state = 'connecting'; retry(); },
  });
}
