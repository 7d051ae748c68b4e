// Light, dark, or as the system has it. What is drawn on a canvas asks here for its colours and is drawn anew when they change.
const order = ['system', 'light', 'dark'];
const kept = 'breakwater-theme';
const listeners = [];
let now = order.includes(localStorage.getItem(kept)) ? localStorage.getItem(kept) : 'system';

export const themeNow = () => now;
export const onTheme = (fn) => listeners.push(fn);

export function nextTheme() {
  now = order[(order.indexOf(now) + 1) % order.length];
  localStorage.setItem(kept, now);
  apply();
}

export function start() {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', tell);
  apply();
}

function apply() {
  if (now === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
  tell();
}

function tell() {
  resolved.clear();
  for (const fn of listeners) fn();
}

const resolved = new Map();
const probe = document.createElement('i');
probe.hidden = true;

// color resolves a custom property to what a canvas understands; alpha 0 to 1.
export function color(name, alpha = 1) {
  const key = name + alpha;
  if (!resolved.has(key)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    resolved.set(key, getComputedStyle(probe).color.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`));
  }
  return resolved.get(key);
}
