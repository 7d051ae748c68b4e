// Elements from data. Text goes in as text, never as markup: no part of the page parses HTML from data.

const SVG = 'http://www.w3.org/2000/svg';

// h makes an element. Properties: class, on<Event> handlers, hidden/disabled/checked/value as properties, the rest as attributes.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// s makes an SVG element; the same properties.
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

const asProperty = new Set(['hidden', 'disabled', 'checked', 'value', 'selected', 'open', 'required']);

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false && !asProperty.has(name)) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (asProperty.has(name)) el[name] = value;
    else el.setAttribute(name, value === true ? '' : value);
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) el.append(child);
  }
}

// show replaces what is in el.
export function show(el, ...children) {
  el.replaceChildren();
  add(el, children);
  return el;
}

// text sets an element's text where it differs, so that nothing is repainted or read out again in vain.
export function text(el, value) {
  const want = String(value);
  if (el.textContent !== want) el.textContent = want;
}

// attr does the same with an attribute; null removes it.
export function attr(el, name, value) {
  if (value === null || value === undefined || value === false) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value);
}

// keyed keeps one child of parent for each item, in order: made once by make(item), then told of by child.update(item).
export function keyed(parent, items, key, make) {
  const old = new Map([...parent.children].map((el) => [el.dataset.key, el]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    let el = old.get(k);
    if (!el) {
      el = make(item);
      el.dataset.key = k;
    }
    old.delete(k);
    if (el === at) at = at.nextElementSibling;
    else parent.insertBefore(el, at);
    el.update?.(item);
  }
  for (const el of old.values()) el.remove();
}

// same tells whether what a part is drawn from is as it was, by its JSON.
export function changed(el, ...data) {
  const now = JSON.stringify(data);
  if (el.drawnFrom === now) return false;
  el.drawnFrom = now;
  return true;
}

export const byId = (id) => document.getElementById(id);
