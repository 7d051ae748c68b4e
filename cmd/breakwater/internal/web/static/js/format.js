// Numbers and times as people read them.

// duration writes milliseconds: "83 ms", "1.4 s", "2 min 05 s", "3 h 12 min", "2 d 4 h".
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return 'unknown';
  if (ms < 0) ms = 0;
  if (ms === 0) return '0 ms';
  if (ms < 9.95) return `${trim(ms, 1)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${pad(s % 60)} s`;
  const min = Math.floor(s / 60);
  if (min < 1440) return `${Math.floor(min / 60)} h ${pad(min % 60)} min`;
  return `${Math.floor(min / 1440)} d ${Math.floor(min / 60) % 24} h`;
}

// seconds is a duration that runs: whole seconds, so that it does not flicker.
export const seconds = (ms) => (ms < 10000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(ms));

// left is a duration that runs out: tenths.
export const left = (ms) => (ms < 10000 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : duration(ms));

export function count(n) {
  if (n === null || n === undefined) return '–';
  return Number(n).toLocaleString('en-US', { maximumFractionDigits: 0 });
}

// rate writes something a second.
export function rate(n) {
  if (n === null || n === undefined) return '–';
  return n >= 100 || Number.isInteger(n) ? count(n) : trim(n, 1);
}

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1048576) return `${trim(n / 1024, 1)} KiB`;
  return `${trim(n / 1048576, 1)} MiB`;
}

export const percent = (share) => `${Math.round(share * 100)} %`;

// clock writes a moment's time of day.
export function clock(at, withTenths) {
  const d = at instanceof Date ? at : new Date(at);
  const text = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  return withTenths ? `${text}.${Math.floor(d.getMilliseconds() / 100)}` : text;
}

export function date(at) {
  const d = new Date(at);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(d)}`;
}

// yaml writes milliseconds as a duration of the configuration file; Infinity and null are "never".
export function yaml(ms) {
  if (ms === null || ms === Infinity) return 'never';
  if (ms >= 1000 && ms % 100 === 0) return `${ms / 1000}s`;
  return `${ms}ms`;
}

// plural writes "1 replica", "3 replicas".
export const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

// list writes "a", "a and b", "a, b and c".
export function list(words) {
  if (words.length < 2) return words.join('');
  return `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

export const upper = (word) => word.charAt(0).toUpperCase() + word.slice(1);

const pad = (n) => String(n).padStart(2, '0');
const trim = (n, digits) => String(Number(n.toFixed(digits)));
