// Calls of the interface over HTTP. The token is typed by the user, sent as a header, and never stands in an address.

const root = new URL('api/v1/', document.baseURI);
const tokenKey = 'breakwater-token';
let token = sessionStorage.getItem(tokenKey) ?? '';

export function setToken(value) {
  token = value;
  sessionStorage.setItem(tokenKey, value);
}

export const hasToken = () => token !== '';
export const address = (path) => new URL(path, root);

// Fault is an answer that is no success: status 0 where there was none.
export class Fault extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function request(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (options.body) headers['Content-Type'] = 'application/json';
  return fetch(address(path), { cache: 'no-store', credentials: 'same-origin', ...options, headers });
}

// call sends JSON and answers with JSON; a Fault says in words what was wrong.
export async function call(method, path, body) {
  let response;
  try {
    response = await request(path, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Fault(0, 'no answer: the process is gone or cannot be reached');
  }
  const raw = await response.text();
  if (!response.ok) throw new Fault(response.status, reasonOf(raw) || `the answer was ${response.status}`);
  return parsed(raw);
}

export const get = (path) => call('GET', path);

function reasonOf(raw) {
  const answer = parsed(raw);
  if (!answer || typeof answer !== 'object') return raw.slice(0, 300).trim();
  const fields = (answer.fields ?? []).map((f) => [f.field, f.mend].filter(Boolean).join(': '));
  return [answer.error, ...fields].filter(Boolean).join('; ');
}

function parsed(raw) {
  try {
    return raw ? JSON.parse(raw) : null;
  } catch {
    return null;
  }
}

// curl is the same call as a line for a shell.
export function curl(method, path, body) {
  const parts = ['curl'];
  if (method !== 'GET') parts.push(`-X ${method}`);
  if (token) parts.push('-H "Authorization: Bearer $BREAKWATER_TOKEN"');
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  parts.push(quoted(address(path).href));
  return parts.join(' ');
}

const quoted = (word) => `'${word.replaceAll("'", `'\\''`)}'`;
