// What the tests share: a stand-in of the lab (or a process that runs already, PAGE_URL), the daemon, headless Chromium, and pages that
// may ask nothing of any other origin.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

function fail(message) {
  throw new Error(message);
}

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });

const program = (name) => process.env[name] ?? fail(`${name} is not set: run tools/page-test.sh`);

// standin starts one and answers with its address and process; daemon starts the program's own, by a configuration file.
export const standin = (...flags) => start(program('STANDIN'), flags, 'inherit');
export const daemon = (file) => start(program('BREAKWATER'), ['serve', '--config', file], 'ignore');

async function start(path, flags, log) {
  const child = spawn(path, flags, { stdio: ['ignore', 'pipe', log] });
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([once(lines, 'line'), once(child, 'exit').then(() => fail(`${path} ended at once`))]);
  return { url: line.match(/http:\S+/)[0], child, stop: () => end(child) };
}

async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGCONT');
  child.kill('SIGTERM');
  await gone;
}

// open opens the page; what it asks of another origin, its errors, and what its policy of contents refuses fail the test at close.
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, permissions: ['clipboard-read', 'clipboard-write'], acceptDownloads: true, ...options });
  const faults = [];
  const { origin } = new URL(url);
  await context.route('**/*', (route) => {
    const to = new URL(route.request().url());
    if (to.origin === origin || to.protocol === 'blob:' || to.protocol === 'data:') return route.continue();
    faults.push(`a request left for ${to.origin}`);
    return route.abort();
  });
  const page = await context.newPage();
  page.on('pageerror', (error) => faults.push(`error: ${error.stack}`));
  page.on('console', (message) => { if (message.type() === 'error' && !/Failed to load resource|net::ERR/.test(message.text())) faults.push(`console: ${message.text()}`); });
  page.setDefaultTimeout(45_000);
  await page.goto(url);
  return { page, context, faults, close: async () => { await context.close(); assert.deepEqual(faults, []); } };
}

export const live = (page) => page.waitForSelector('#link:has-text("Live")');
export const card = (page, name) => page.locator(`article.card[data-key$="/${name}"]`);
export const stateIs = (page, name, state, timeout = 45_000) => page.waitForSelector(`article.card.state-${state}[data-key$="/${name}"]`, { timeout });
export const fault = (page, what, who) => page.getByRole('button', { name: `${what}: ${who}`, exact: true });
export const event = (page, words) => page.locator('.log li', { hasText: words }).first().waitFor();

// axe finds what keeps people out: nothing of weight may be left. Of long lists it looks at their first rows.
export async function accessible(page, where) {
  const source = await readFile(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');
  await page.evaluate(source); // by the debugger: the page's policy of contents stays as it is
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run({ exclude: ['.log li:nth-child(n+12)', '.letter-table tr:nth-child(n+6)'] }, { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
    return violations.map((v) => ({ id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 4).map((n) => `${n.target} ${n.failureSummary}`) }));
  });
  const grave = found.filter((v) => v.impact === 'serious' || v.impact === 'critical' || v.impact === 'moderate');
  assert.deepEqual(grave, [], where);
}
