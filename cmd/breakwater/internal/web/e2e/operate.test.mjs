// What an operator does: breakers, thresholds, budget, dead letters. Each action is clicked.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { card, event, fault, launch, live, open, standin, stateIs } from './harness.mjs';

let browser;
let lab;
before(async () => { [browser, lab] = await Promise.all([launch(), standin()]); });
after(async () => { await browser.close(); await lab.stop(); });

async function hand(page, action, reason) {
  await page.locator('#detail').getByRole('button', { name: action, exact: true }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Reason').fill(reason);
  await dialog.getByRole('button', { name: action, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}

test('a breaker is forced open, forced closed, disabled, and given back, each with its reason', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await card(page, 'r1').getByRole('button').click();
  for (const [action, state, word] of [['Force open', 'forced_open', 'Forced open'], ['Force closed', 'forced_closed', 'Forced closed'], ['Disable', 'disabled', 'Disabled'], ['Back to automatic', 'closed', 'Closed']]) {
    await hand(page, action, `drill: ${word}`);
    await stateIs(page, 'r1', state);
    assert.equal(await card(page, 'r1').locator('.word').innerText(), word);
    await event(page, `drill: ${word}`);
  }
  await page.locator('#detail summary:has-text("Lines to copy")').click();
  const curl = await page.locator('#detail .snippet pre').first().innerText();
  assert.match(curl, /^curl -X POST .*"state":"forced_open".*\/api\/v1\/breakers\/r1'$/);
  await page.locator('#detail .snippet button').first().click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), curl);
  await close();
});

test('a reason is required, and what the process refuses is said', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await card(page, 'r1').getByRole('button').click();
  await page.locator('#detail').getByRole('button', { name: 'Force open' }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByRole('button', { name: 'Force open' }).click();
  assert.ok(await dialog.isVisible(), 'no reason: the form stays');
  await dialog.getByLabel('Reason').fill('   ');
  await dialog.getByRole('button', { name: 'Force open' }).click();
  await dialog.getByRole('alert').filter({ hasText: 'say why' }).waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await card(page, 'r1').locator('.word').innerText(), 'Closed');
  await close();
});

test('thresholds: what changes is shown before it is applied, and copied as YAML', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await card(page, 'r1').getByRole('button').click();
  const detail = page.locator('#detail');
  const apply = detail.getByRole('button', { name: 'Apply' });
  assert.ok(await apply.isDisabled(), 'nothing has changed yet');
  await detail.getByLabel('Trip, ms').fill('100');
  await detail.getByText('Re-enter: give at most trip').waitFor();
  assert.ok(await apply.isDisabled(), 'it contradicts itself');
  await detail.getByLabel('Trip, ms').fill('800');
  await detail.locator('.preview').getByText('Trip: 500 ms → 800 ms').waitFor();
  await detail.getByRole('button', { name: 'Copy as YAML' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()),
    'settings:\n  trip: 800ms\n  reenter: 200ms\n  breaches: 3\n  max_staleness: 2250ms\n  failures: 3\n  open: {base: 2s, max: 8s}\n');
  await apply.click();
  await page.waitForFunction(() => document.querySelector('.gauge svg').textContent.includes('trip 800 ms'));
  await event(page, 'trip_ms 800');
  await detail.getByLabel('Trip, ms').fill('');
  await detail.getByText('Lag opens no breaker any more.').waitFor();
  await card(page, 'webhooks').getByRole('button').click();
  await detail.getByLabel('Slow, ms').fill('120');
  await detail.getByLabel('Bulkhead').fill('1.5');
  await detail.getByText('Bulkhead: give a whole number').waitFor();
  await detail.getByLabel('Bulkhead').fill('12');
  await apply.click();
  await card(page, 'webhooks').getByText('of 12').waitFor();
  await close();
});

test('the trace of an opening is downloaded', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await page.getByLabel('For how long').selectOption('10');
  await fault(page, 'pause replay', 'r3').click();
  await stateIs(page, 'r3', 'open');
  await card(page, 'r3').getByRole('button').click();
  await page.locator('.traces summary').click();
  const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: /^Download the trace/ }).first().click()]);
  assert.match(saved.suggestedFilename(), /^breakwater-\d+\.trace$/);
  await page.locator('#heal').click();
  await close();
});

test('the primary’s budget is changed', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await page.getByRole('button', { name: 'Change the budget' }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Reads a second').fill('150');
  await dialog.getByLabel('Burst').fill('90');
  await dialog.getByRole('button', { name: 'Apply' }).click();
  await page.locator('.path-card').getByText('of 90 tokens').waitFor();
  await close();
});

test('dead letters: looked at, filtered, viewed as text, replayed one and all, discarded with a typed name', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await page.getByLabel('For how long').selectOption('0');
  await fault(page, 'fail', 'webhooks').click();
  await stateIs(page, 'webhooks', 'open');
  const lot = page.locator('.lot:has(h3:text-is("webhooks"))');
  await page.waitForFunction(() => Number([...document.querySelectorAll('.lot')].find((el) => el.textContent.startsWith('webhooks')).querySelector('.depth').textContent) > 20);
  await lot.getByText('breaker open').waitFor();
  await lot.getByRole('button', { name: 'Show letters' }).click();
  await page.getByLabel('Reason').selectOption('open');
  await page.waitForFunction(() => { const rows = [...document.querySelectorAll('.letter-table tbody tr')]; return rows.length > 5 && rows.every((tr) => tr.innerText.includes('breaker open')); });
  await page.getByRole('button', { name: /^View / }).last().click();
  const payload = page.locator('dialog[open] .payload');
  await payload.waitFor();
  assert.match(await payload.innerText(), /<script>alert\(1\)<\/script>|\\u003cscript/, 'a payload is text');
  assert.equal(await page.locator('dialog script, dialog b').count(), 0, 'and never markup');
  await page.locator('dialog[open]').getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: 'Discard these' }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Reason').fill('drill');
  await dialog.getByLabel('Type webhooks to confirm').fill('billing');
  await dialog.getByRole('button', { name: 'Discard' }).click();
  await dialog.getByRole('alert').filter({ hasText: 'Type webhooks' }).waitFor();
  await dialog.getByLabel('Type webhooks to confirm').fill('webhooks');
  await dialog.getByRole('button', { name: 'Discard' }).click();
  await dialog.waitFor({ state: 'detached' });
  await event(page, 'discarded: drill');
  await page.getByLabel('Reason').selectOption('');
  await page.getByRole('button', { name: 'Look again' }).click();
  await page.getByRole('button', { name: /^Replay [^at]/ }).first().click();
  await page.locator('dialog[open]').getByRole('button', { name: 'Replay' }).click();
  await event(page, 'replay of 1 letter of webhooks');
  await page.locator('#heal').click();
  await lot.getByRole('button', { name: 'Replay all' }).click();
  await page.locator('dialog[open]').getByRole('button', { name: 'Replay' }).click();
  await page.waitForFunction(() => [...document.querySelectorAll('.lot')].find((el) => el.textContent.startsWith('webhooks')).querySelector('.depth').textContent === '0', null, { timeout: 60_000 });
  await close();
});
