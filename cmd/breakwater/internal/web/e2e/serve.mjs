// The page of a daemon as it is run: `breakwater serve` by a configuration file with a token and two consumers
// (`tools/page-test.sh --serve`). A consumer fails or refuses, a token is wrong, a file has a fault, a fleet is away (REQ-O3, REQ-O4).
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { card, daemon, event, launch, live, open, stateIs } from './harness.mjs';

const token = 'a-token-of-the-page-s-tests';
const patience = 20_000;
let browser;
let directory;
let file;
let serve;
const consumers = {};

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'breakwater-page-'));
  file = join(directory, 'breakwater.yaml');
  for (const name of ['ledger', 'mailer']) consumers[name] = await consumer();
  await Promise.all([writeFile(join(directory, 'token'), token), writeFile(file, configuration())]);
  [browser, serve] = await Promise.all([launch(), daemon(file)]);
});
after(async () => {
  await Promise.all([browser?.close(), serve?.stop()]);
  for (const c of Object.values(consumers)) c.close();
  await rm(directory, { recursive: true });
});

// consumer answers each trigger with its status, and remembers those that it took.
async function consumer() {
  const c = { status: 204, taken: [] };
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (c.status === 204) c.taken.push(request.headers['ce-id']);
      response.writeHead(c.status).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  c.url = `http://127.0.0.1:${server.address().port}/`;
  c.close = () => { server.closeAllConnections(); server.close(); };
  return c;
}

const configuration = (more = '') => `listen: 127.0.0.1:0
auth: {bearer_token_file: token}
consumers:
  - {name: ledger, url: "${consumers.ledger.url}", types: [order.paid], timeout: 2s, slow: 1s}
  - {name: mailer, url: "${consumers.mailer.url}", types: [mail.wanted], timeout: 2s, slow: 1s}
${more}`;

// emit hands n triggers of a type to the daemon and answers with what became of each.
async function emit(type, n) {
  const events = Array.from({ length: n }, (_, i) => ({ specversion: '1.0', id: `${type}-${Date.now()}-${i}`, source: '/shop', type, data: { note: '<b>one</b>' } }));
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/cloudevents-batch+json' };
  const answer = await fetch(`${serve.url}/api/v1/emit`, { method: 'POST', headers, body: JSON.stringify(events) });
  assert.equal(answer.status, 202);
  return (await answer.json()).events.map((e) => e.consumers[0].outcome);
}

async function signIn(page, word) {
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Token').fill(word);
  await dialog.getByRole('button', { name: 'Connect' }).click();
}

// visit opens the page of a daemon, signed in.
async function visit(url = serve.url) {
  const visited = await open(browser, url);
  visited.page.setDefaultTimeout(patience);
  await signIn(visited.page, token);
  await live(visited.page);
  return visited;
}

// confirm answers the form that is open: what its fields are given, and its button.
async function confirm(page, button, fields = {}) {
  const dialog = page.locator('dialog[open]');
  for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label).fill(value);
  await dialog.getByRole('button', { name: button, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}

const figure = (page, name, value) => page.locator('#detail .figures div', { has: page.locator(`dt:text-is("${name}")`) }).locator(`dd:text-is("${value}")`).waitFor();
const lot = (page, name) => page.locator('.lot', { has: page.locator(`h3:text-is("${name}")`) });
const stored = (page, name, n) => lot(page, name).locator(`.depth:text-is("${n}")`).waitFor();

test('a wrong token is refused in words, and the right one shows what is guarded', async () => {
  const { page, close } = await open(browser, serve.url);
  page.setDefaultTimeout(patience);
  await signIn(page, 'a-token-of-somebody-else');
  await page.locator('dialog[open]', { hasText: 'The token was not accepted.' }).waitFor();
  assert.equal(await page.locator('.card').count(), 0, 'nothing is shown to who has no token');
  await signIn(page, token);
  await live(page);
  for (const name of ['ledger', 'mailer']) await stateIs(page, name, 'closed');
  assert.equal(await page.locator('#mode').innerText(), 'Serve');
  assert.equal(await page.locator('h1').innerText(), 'All is well.');
  assert.ok(await page.locator('#lab').isHidden());
  assert.ok(!page.url().includes(token));
  await close();
});

test('triggers are emitted, and the figures move; forced open they are stored, given back they are delivered', async () => {
  const { page, close } = await visit();
  await card(page, 'ledger').getByRole('button').click();
  await figure(page, 'Delivered', '0');
  assert.deepEqual(new Set(await emit('order.paid', 20)), new Set(['delivered']));
  await figure(page, 'Delivered', '20');
  await page.locator('#detail').getByRole('button', { name: 'Force open' }).click();
  await confirm(page, 'Force open', { Reason: 'ledger is moved' });
  await stateIs(page, 'ledger', 'forced_open');
  await event(page, 'ledger: forced open');
  await event(page, 'ledger is moved');
  await page.locator('h1', { hasText: 'ledger is forced open.' }).waitFor();
  assert.deepEqual(new Set(await emit('order.paid', 5)), new Set(['stored']));
  await stored(page, 'ledger', 5);
  await lot(page, 'ledger').getByText('forced open 5').waitFor();
  assert.equal(consumers.ledger.taken.length, 20, 'it got nothing while it was held');
  await page.locator('#detail').getByRole('button', { name: 'Back to automatic' }).click();
  await confirm(page, 'Back to automatic', { Reason: 'ledger is back' });
  await stateIs(page, 'ledger', 'closed');
  await event(page, 'ledger is back');
  await stored(page, 'ledger', 0);
  await figure(page, 'Replayed', '5');
  assert.equal(new Set(consumers.ledger.taken).size, 25);
  await close();
});

test('a consumer fails: its breaker opens and says why; what it missed comes to it once it is mended', async () => {
  const { page, close } = await visit();
  consumers.mailer.status = 500;
  assert.deepEqual(new Set(await emit('mail.wanted', 30)), new Set(['stored']));
  await stored(page, 'mailer', 30);
  await page.locator('.log li', { hasText: 'mailer: open' }).filter({ hasText: 'answered 500' }).first().waitFor();
  consumers.mailer.status = 204;
  await stored(page, 'mailer', 0);
  assert.equal(new Set(consumers.mailer.taken).size, 30);
  await close();
});

test('a consumer refuses triggers: their letters are parked and looked at, one is discarded and the rest are replayed by hand', async () => {
  const { page, close } = await visit();
  consumers.ledger.status = 422;
  await emit('order.paid', 8);
  await stored(page, 'ledger', 8);
  await lot(page, 'ledger').getByText('8 parked').waitFor();
  await lot(page, 'ledger').getByRole('button', { name: 'Show letters' }).click();
  await page.locator('.letter-table tbody tr', { hasText: 'rejected' }).nth(7).waitFor();
  await page.getByRole('button', { name: /^View / }).first().click();
  const letter = page.locator('dialog[open]');
  assert.match(await letter.locator('.payload').innerText(), /<b>one<\/b>/, 'a payload is text');
  await letter.getByText(/answered 422/).first().waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: /^Discard order/ }).first().click();
  await confirm(page, 'Discard', { Reason: 'sent by hand', 'Type ledger to confirm': 'ledger' });
  await event(page, '1 letter of ledger discarded: sent by hand');
  await stored(page, 'ledger', 7);
  consumers.ledger.status = 204;
  const before = consumers.ledger.taken.length;
  await lot(page, 'ledger').getByRole('button', { name: 'Replay all' }).click();
  await confirm(page, 'Replay');
  await event(page, 'replay of 7 letters of ledger');
  await stored(page, 'ledger', 0);
  assert.equal(consumers.ledger.taken.length - before, 7);
  await close();
});

test('a configuration file with a fault is not taken, which the page tells until it is mended', async () => {
  const { page, close } = await visit();
  await writeFile(file, configuration('settngs: {}\n'));
  serve.child.kill('SIGHUP');
  await page.locator('#banner', { hasText: 'was not taken' }).getByText('settngs').waitFor();
  await event(page, 'Configuration not taken');
  await writeFile(file, configuration('log: {level: warn}\n'));
  serve.child.kill('SIGHUP');
  await page.waitForFunction(() => !document.querySelector('#banner').textContent);
  await event(page, 'Configuration read');
  await close();
});

test('a fleet that cannot be reached is told as such, and no secret of it is', async (t) => {
  const other = join(directory, 'fleet.yaml');
  const node = 'dsn: "postgres://app:a-password@127.0.0.1:1/shop"';
  await writeFile(other, configuration(`primary: {${node}}\nreplicas:\n  - {name: r1, ${node}}\ndegraded_mode: {default_class: critical}\n`));
  const fleet = await daemon(other);
  t.after(fleet.stop);
  const { page, close } = await visit(fleet.url);
  await stateIs(page, 'r1', 'open');
  await card(page, 'r1').getByText('cannot be sampled').waitFor();
  await page.locator('#banner', { hasText: 'Degraded: no replica is fresh enough' }).waitFor();
  await page.locator('h1', { hasText: 'r1 is open.' }).waitFor();
  assert.ok(!(await page.content()).includes('a-password'));
  await close();
});
