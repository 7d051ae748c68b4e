// Dialogs, messages, and what goes to the clipboard.
import { byId, h, show } from './dom.js';
import { icon } from './icons.js';

// modal opens a dialog and takes it away when it is closed; Escape closes it. before is what had the focus.
export function modal(label, content, wide) {
  const dialog = h('dialog', { 'aria-label': label, class: wide ? 'wide' : undefined }, content);
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// ask shows a form and calls act with its values; what act throws is shown, and the form stays.
// fields: { name, label, type, value, required, hint, options }. type "radio" has options [{ value, label }].
export function ask({ title, body, fields = [], yes, danger, act }) {
  const fault = h('p', { class: 'fault', role: 'alert', hidden: true });
  const submit = h('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, yes);
  const form = h('form', { method: 'dialog', onsubmit: go },
    h('h2', {}, title), body, fields.map(fieldOf), fault,
    h('div', { class: 'actions' }, h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'), submit));
  const dialog = modal(title, form);
  form.querySelector('input, select, textarea')?.focus();
  async function go(event) {
    event.preventDefault();
    submit.disabled = true;
    fault.hidden = true;
    try {
      await act(Object.fromEntries(new FormData(form)));
      dialog.close();
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
    }
    submit.disabled = false;
  }
  return dialog;
}

function fieldOf(f) {
  if (f.type === 'radio') {
    return h('fieldset', { class: 'options' }, h('legend', { class: 'unseen' }, f.label),
      f.options.map((o) => h('label', { class: 'check' }, h('input', { type: 'radio', name: f.name, value: o.value, required: true }), o.label)));
  }
  return h('label', { class: 'field' }, f.label,
    h('input', { name: f.name, type: f.type ?? 'text', value: f.value ?? '', required: f.required ?? false, maxlength: 500, autocomplete: 'off' }),
    f.hint && h('span', { class: 'hint' }, f.hint));
}

export function toast(message, bad) {
  const el = h('div', { class: bad ? 'toast bad' : 'toast' }, message);
  byId('toasts').append(el);
  setTimeout(() => el.remove(), bad ? 9000 : 4500);
}

// announce is heard by who cannot see the page.
export const announce = (message) => { byId('announce').textContent = message; };

// attempt runs an action and says how it ended.
export async function attempt(act, done) {
  try {
    await act();
    if (done) toast(done);
    return true;
  } catch (error) {
    toast(error.message, true);
    return false;
  }
}

export async function copy(value, what) {
  try {
    await navigator.clipboard.writeText(value);
    toast(`${what} copied`);
  } catch {
    modal(what, h('div', { class: 'inside' }, h('h2', {}, what), h('p', { class: 'quiet' }, 'The browser gives no access to the clipboard here: copy it by hand.'), h('pre', { tabindex: 0 }, value)));
  }
}

// snippet is a line to copy.
export function snippet(value, what) {
  return h('div', { class: 'snippet' }, h('pre', { tabindex: 0 }, value),
    h('button', { type: 'button', class: 'tiny', 'aria-label': `Copy ${what}`, onclick: () => copy(value, what) }, 'Copy'));
}

export const snippets = (pairs) => h('dl', { class: 'snippets' }, pairs.map(([what, value]) => h('div', {}, h('dt', {}, what), h('dd', {}, snippet(value, what)))));

// segments are buttons of which one is chosen: options [[value, label]].
export function segments(label, options, chosen, choose) {
  const group = h('div', { class: 'segments', role: 'group', 'aria-label': label });
  group.choose = (value) => { for (const b of group.children) b.setAttribute('aria-pressed', String(b.dataset.value === String(value))); };
  show(group, options.map(([value, text]) => h('button', { type: 'button', 'data-value': String(value), onclick: () => choose(value) }, text)));
  group.choose(chosen);
  return group;
}

export { icon };
