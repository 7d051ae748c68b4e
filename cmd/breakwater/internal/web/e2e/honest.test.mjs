// Nothing is shown as fresh that is not: stale, disconnected, resumed, recorded; and who needs a token is asked for one (REQ-O4).
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { card, fault, launch, live, open, standin, stateIs } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser.close(); });

const grey = (page) => page.evaluate(() => getComputedStyle(document.querySelector('main')).filter);

test('a process that hangs turns the page stale, one that is gone disconnected, one that is back live', async () => {
  const lab = await standin();
  const { page, close } = await open(browser, lab.url);
  try {
    await live(page);
    assert.equal(await grey(page), 'none');
    lab.child.kill('SIGSTOP');
    await page.waitForSelector('#link:has-text("Stale since")');
    await page.waitForFunction(() => getComputedStyle(document.querySelector('main')).filter === 'grayscale(1)');
    lab.child.kill('SIGCONT');
    await live(page);
    await page.waitForFunction(() => getComputedStyle(document.querySelector('main')).filter === 'none');
    await lab.stop();
    await page.waitForSelector('#link:has-text("Disconnected")');
    assert.match(await page.locator('#link').innerText(), /again in/);
    const again = await standin('-listen', new URL(lab.url).host);
    try {
      await live(page);
    } finally {
      await again.stop();
    }
  } finally {
    await lab.stop();
  }
  await close();
});

// wire passes to a process, until it is cut.
async function wire(url) {
  const { hostname, port } = new URL(url);
  const open = new Set();
  let cut = false;
  const server = createServer((near) => {
    if (cut) return near.destroy();
    const far = connect(Number(port), hostname);
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on('error', () => {}).on('close', () => { open.delete(socket); near.destroy(); far.destroy(); });
    }
    return near.pipe(far).pipe(near);
  });
  const drop = () => { for (const socket of open) socket.destroy(); };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${server.address().port}/`, cut: () => { cut = true; drop(); }, mend: () => { cut = false; }, stop: () => { server.close(); drop(); } };
}

test('events that happened while the page was away are there when it is back, in order, none twice', async () => {
  const lab = await standin();
  const way = await wire(lab.url);
  const { page, close } = await open(browser, way.url);
  const ids = () => page.evaluate(() => [...document.querySelectorAll('.log li')].map((li) => li.dataset.key));
  try {
    await live(page);
    await fault(page, 'pause replay', 'r1').click();
    await stateIs(page, 'r1', 'open');
    way.cut();
    await page.waitForSelector('#link:has-text("Disconnected")');
    const before = (await ids()).length;
    const last = async () => (await (await fetch(`${lab.url}api/v1/status`)).json()).stream.last;
    const had = await last();
    while (await last() < had + 3) await new Promise((done) => setTimeout(done, 200)); // it opens again and again
    way.mend();
    await live(page);
    await page.waitForFunction((n) => document.querySelectorAll('.log li').length >= n + 3, before);
    const seen = await ids();
    assert.ok(seen.every((id) => /^\d+$/.test(id)), `no gap: ${seen}`);
    assert.deepEqual(seen.map(Number), seen.map((_, i) => Number(seen[0]) - i), 'in order, none missing, none twice');
  } finally {
    way.stop();
    await lab.stop();
  }
  await close();
});

test('a token is asked for, sent as a header, and never stands in an address', async () => {
  const lab = await standin('-token', 'correct horse battery');
  const { page, close } = await open(browser, lab.url);
  const asked = [];
  page.on('request', (request) => asked.push(request.url()));
  try {
    await page.waitForSelector('#link:has-text("Token needed")');
    const dialog = page.locator('dialog[open]');
    await dialog.getByLabel('Token').fill('wrong');
    await dialog.getByRole('button', { name: 'Connect' }).click();
    await page.locator('dialog[open]', { hasText: 'was not accepted' }).getByLabel('Token').fill('correct horse battery');
    await page.locator('dialog[open]').getByRole('button', { name: 'Connect' }).click();
    await live(page);
    await fault(page, 'pause replay', 'r3').click();
    await stateIs(page, 'r3', 'open');
    assert.ok(asked.every((url) => !/correct|horse/.test(url)), 'no token in an address');
    assert.doesNotMatch(await page.content(), /correct horse/, 'nor on the page');
  } finally {
    await lab.stop();
  }
  await close();
});

test('the daemon’s page has no lab, and no badge of a simulation', async () => {
  const daemon = await standin('-daemon');
  const { page, close } = await open(browser, daemon.url);
  try {
    await live(page);
    assert.equal(await page.locator('#simulated').count(), 0);
    assert.match(await page.locator('#facts').innerText(), /PostgreSQL 15\.18/);
    assert.match(await page.locator('#footer').innerText(), /configuration 4f1c9a70be2d/);
    await page.locator('#banner', { hasText: 'Some settings wait for a restart' }).getByText('listen').waitFor();
    assert.ok(await page.locator('#lab').isHidden());
    assert.ok(await page.locator('#rail #events').isVisible(), 'the log stands beside the breakers');
    await page.waitForFunction(() => /r1 \d/.test(document.querySelector('#chart-staleness .plot').getAttribute('aria-label')), null, { timeout: 10_000 });
  } finally {
    await daemon.stop();
  }
  await close();
});

test('a run is exported as one file, opened again, scrubbed, and plainly recorded', async () => {
  const lab = await standin();
  const { page, close } = await open(browser, lab.url);
  const file = join(tmpdir(), `breakwater-run-${process.pid}.json`);
  try {
    await live(page);
    await fault(page, 'pause replay', 'r2').click();
    await stateIs(page, 'r2', 'half_open');
    const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export' }).click()]);
    await saved.saveAs(file);
    const run = JSON.parse(await readFile(file, 'utf8'));
    assert.equal(run.kind, 'breakwater-run');
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('button', { name: 'Open a run' }).click()]);
    await chooser.setFiles(file);
    await page.waitForSelector('#recorded:has-text("RECORDED")');
    assert.match(await page.locator('#link').innerText(), /Recorded/);
    assert.ok(await page.locator('#lab').isHidden(), 'nothing can be broken in the past');
    await page.locator('#scrubber').focus();
    await page.keyboard.press('Home');
    await stateIs(page, 'r2', 'closed');
    assert.equal(await page.locator('.log li', { hasText: 'r2: open' }).count(), 0, 'it had not happened yet');
    await page.keyboard.press('End');
    await stateIs(page, 'r2', 'half_open');
    await card(page, 'r2').getByRole('button').click();
    assert.equal(await page.locator('#detail').getByRole('button', { name: 'Force open' }).count(), 0);
    await lab.stop(); // a file needs no process
    await page.keyboard.press('Home');
    await page.locator('#recorded').getByRole('button', { name: 'Play' }).click();
    await page.locator('#close-run').click();
    await page.waitForSelector('#link:has-text("Disconnected")');
  } finally {
    await lab.stop();
    await rm(file, { force: true });
  }
  await close();
});

test('a file that is no run is refused with words', async () => {
  const lab = await standin();
  const { page, close } = await open(browser, lab.url);
  try {
    await live(page);
    for (const [text, words] of [['{"kind":"other"}', 'it is no run of Breakwater'], ['{', 'cannot be opened'], ['{"kind":"breakwater-run","version":9}', 'its version is 9']]) {
      const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('button', { name: 'Open a run' }).click()]);
      await chooser.setFiles({ name: 'x.json', mimeType: 'application/json', buffer: Buffer.from(text) });
      await page.locator('.toast.bad', { hasText: words }).last().waitFor();
    }
    assert.ok(await page.locator('#recorded').isHidden());
  } finally {
    await lab.stop();
  }
  await close();
});
