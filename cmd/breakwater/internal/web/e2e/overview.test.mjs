// What the page shows, and how one finds one's way in it (REQ-O3, REQ-O7).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { card, event, fault, launch, live, open, standin, stateIs } from './harness.mjs';

let browser;
let lab;
before(async () => { [browser, lab] = await Promise.all([launch(), standin()]); });
after(async () => { await browser.close(); await lab.stop(); });

test('a fleet that is well: each part is there, and says so', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await page.waitForSelector('h1:has-text("All is well.")');
  await page.waitForSelector('#simulated:visible');
  assert.equal(await page.locator('article.card').count(), 7, 'three replicas, the read path, three consumers');
  for (const id of ['states', 'staleness', 'latency', 'sources', 'budget', 'letters']) assert.ok(await page.locator(`#chart-${id}`).isVisible(), id);
  assert.match(await page.locator('#chart-staleness .plot').getAttribute('aria-label'), /Staleness, the last 1 minutes.*r1 0 ms/);
  assert.match(await page.locator('#topology svg[role=img]').getAttribute('aria-label'), /r1 closed, \d+ a second/);
  assert.match(await page.locator('#footer').innerText(), /Breakwater 0\.0\.0-standin[\s\S]*up \d/);
  await close();
});

test('the machine is drawn as published: failures, sleep left, the probe, and back', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  const machine = card(page, 'r2').locator('.machine');
  assert.match(await machine.getAttribute('aria-label'), /Closed\. 0 of 3 (late samples|failures)/);
  await fault(page, 'pause replay', 'r2').click();
  await stateIs(page, 'r2', 'open');
  await page.waitForFunction(() => /sleep left/.test(document.querySelectorAll('.machine')[1].ariaLabel ?? document.querySelectorAll('.machine')[1].getAttribute('aria-label')));
  assert.match(await card(page, 'r2').locator('.reason').innerText(), /lag \d\.\d\d s > 0\.5 s/);
  await page.waitForSelector('h1:has-text("r2 is open")');
  await page.locator('h1').getByRole('link', { name: 'r2' }).click();
  await page.waitForSelector('#detail h2:has-text("r2")');
  assert.match(await card(page, 'r2').getByRole('link', { name: 'What to do' }).getAttribute('href'), /\/docs\/runbook\.md#breaker-open$/);
  await page.keyboard.press('Escape');
  await stateIs(page, 'r2', 'half_open');
  assert.match(await machine.getAttribute('aria-label'), /Half-open.*1 probe in flight/);
  await page.locator('#heal').click();
  await stateIs(page, 'r2', 'closed');
  await card(page, 'r2').getByText('Ramp').waitFor();
  await event(page, 'r2: open');
  await event(page, 'r2: pause replay ended');
  assert.ok(await page.locator('#chart-states .band.open').count() > 0, 'the lane shows that it was open');
  assert.ok(await page.locator('#chart-states .mark').count() > 0, 'the fault is marked on the same axis');
  await close();
});

test('all replicas out: the banner says since when, what is withheld, what is served', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  for (const name of ['r1', 'r2', 'r3']) await fault(page, 'kill', name).click();
  const banner = page.locator('#banner .notice');
  await banner.getByText('Degraded: no replica is fresh enough').waitFor();
  const words = await banner.innerText();
  for (const want of [/Since:\s*\d\d:\d\d:\d\d, for/, /Withheld:\s*critical, degradable and sheddable reads/, /Critical reads get:\s*the primary within its budget/]) assert.match(words, want);
  assert.match(await banner.getByRole('link', { name: 'the runbook' }).getAttribute('href'), /\/docs\/runbook\.md#read-path-degraded$/);
  await page.locator('#heal').click();
  await page.waitForSelector('#banner .notice:has-text("Recovering")');
  await page.waitForSelector('#banner .notice', { state: 'detached' });
  await close();
});

test('a consumer whose probes succeed is being tried, and not held back', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await page.getByLabel('For how long').selectOption('0');
  await fault(page, 'fail', 'webhooks').click();
  await stateIs(page, 'webhooks', 'open');
  await page.waitForSelector('.topology .gap');
  await page.locator('#heal').click();
  await page.waitForFunction(() => /webhooks is being tried: [1-9]\d* of 400 probes succeeded/.test(document.querySelector('#summary p').textContent));
  await card(page, 'webhooks').getByText(/being tried: \d+ of 400 probes succeeded/).waitFor();
  // On a busy machine another consumer may have opened meanwhile, and has its cross.
  const others = /\bopen\b/.test((await page.locator('#summary').innerText()).replaceAll('half-open', ''));
  assert.ok(others || (await page.locator('.topology .gap').count()) === 0, 'no cross');
  assert.equal(await page.locator('.topology g.warn', { hasText: 'webhooks' }).count(), 1, 'amber');
  await stateIs(page, 'webhooks', 'closed');
  await close();
});

test('the daemon: no rate of reads that it does not see, nothing of the lab', async () => {
  const daemon = await standin('-daemon');
  const { page, close } = await open(browser, daemon.url);
  try {
    await live(page);
    await page.waitForFunction(() => /webhooks closed, [1-9]\d* a second/.test(document.querySelector('#topology svg[role=img]').ariaLabel ?? document.querySelector('#topology svg[role=img]').getAttribute('aria-label')));
    assert.match(await page.locator('#topology svg[role=img]').getAttribute('aria-label'), /Reads: primary primary; r1 closed; r2 closed; r3 closed\./);
    assert.match(await page.locator('#topology').innerText(), /The daemon/);
    assert.ok(!/somebody broke/.test(await page.locator('#topology').innerText()));
    assert.equal(await page.locator('#chart-sources:visible').count(), 0);
    await page.keyboard.press('?');
    assert.ok(!/lab/i.test(await page.locator('dialog .keys').innerText()));
  } finally {
    await daemon.stop();
  }
  await close();
});

test('charts: range, pause, one cursor for all, and each as a table', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await page.getByRole('button', { name: '15 min' }).click();
  assert.match(page.url(), /range=900/);
  await page.getByRole('button', { name: '1 min', exact: true }).click();
  await page.getByRole('button', { name: 'Pause', exact: true }).first().click();
  await page.getByRole('button', { name: 'Go on' }).click();
  await page.locator('#charts').scrollIntoViewIfNeeded();
  await page.waitForFunction(() => document.querySelectorAll('.u-over').length === 5);
  const over = page.locator('#chart-staleness .u-over');
  await over.scrollIntoViewIfNeeded();
  await over.hover();
  await page.waitForFunction(() => Number(document.querySelector('.lanes .cursor').getAttribute('x1')) > 50);
  const shared = await page.evaluate(() => [...document.querySelectorAll('.u-cursor-x')].map((el) => el.style.transform));
  assert.equal(new Set(shared).size, 1, `one cursor: ${shared}`);
  for (const name of ['States', 'Staleness', 'Latency', 'Reads by source', 'Primary’s budget', 'Dead letters']) {
    await page.getByRole('button', { name: `${name} as a table` }).click();
    await page.getByRole('region', { name: `${name}, table` }).waitFor();
  }
  assert.ok(await page.locator('#chart-staleness table td').count() > 4);
  await page.locator('#chart-staleness details summary').click();
  await page.locator('#chart-staleness').getByText('breakwater_replica_staleness_seconds').waitFor();
  await close();
});

test('events: filter, kinds, pause, copy as JSON; the address keeps filter, selection and range', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await fault(page, 'pause replay', 'r2').click();
  await stateIs(page, 'r2', 'open');
  await page.locator('#heal').click();
  await event(page, 'r2: closed');
  await page.getByLabel('Filter events').fill('r2 closed');
  await page.waitForFunction(() => [...document.querySelectorAll('.log li')].every((li) => /r2: closed/.test(li.innerText)));
  await page.getByRole('button', { name: 'JSON' }).click();
  const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
  assert.ok(copied.length > 0 && copied.every((e) => e.kind === 'transition' && e.name === 'r2' && e.to === 'closed'), JSON.stringify(copied));
  await page.getByLabel('Kind of events').selectOption('injected');
  await page.locator('#events').getByText('No event matches.').waitFor();
  await page.locator('#events').getByRole('button', { name: 'Pause' }).click();
  await card(page, 'r3').getByRole('button').click();
  await page.getByRole('button', { name: '5 min', exact: true }).click();
  await page.getByRole('button', { name: '15 min' }).click();
  const address = page.url();
  assert.match(address, /select=replica\/r3/);
  assert.match(address, /range=900/);
  assert.match(address, /filter=r2\+closed/);
  await page.goto('about:blank');
  await page.goto(address);
  await page.waitForSelector('#detail h2:has-text("r3")');
  assert.equal(await page.getByLabel('Filter events').inputValue(), 'r2 closed');
  assert.equal(await page.locator('.segments button[aria-pressed=true]').innerText(), '15 min');
  await close();
});

test('colours: system, light, dark; what is drawn follows', async () => {
  const { page, close } = await open(browser, lab.url, { colorScheme: 'light' });
  await live(page);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.notEqual(await background(), light);
  await page.locator('#theme').click();
  assert.equal(await background(), light, 'light, whatever the system says');
  await page.locator('#theme').click();
  await page.emulateMedia({ colorScheme: 'light' });
  assert.notEqual(await background(), light, 'dark, whatever the system says');
  await close();
});
