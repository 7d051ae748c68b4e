// The lab: every fault, scenarios with the predicted answer, load, and the same load unprotected. It runs against the stand-in, or
// with PAGE_URL against a lab that runs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { card, event, fault, launch, live, open, standin, stateIs } from './harness.mjs';

const given = process.env.PAGE_URL;
const patience = given ? 90_000 : 45_000;
let browser;
let lab;
before(async () => { [browser, lab] = await Promise.all([launch(), given ? { url: given, stop: () => {} } : standin()]); });
after(async () => { await browser.close(); await lab.stop(); });

const statusOf = (page) => page.evaluate(async () => (await fetch('api/v1/status')).json());

test('a replica is paused and seen to open within two clicks', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  const { name } = (await statusOf(page)).replicas[0];
  await fault(page, 'pause replay', name).click(); // the first, and the last
  await stateIs(page, name, 'open', patience);
  await page.locator('#lab', { hasText: 'in force' }).waitFor();
  await page.locator('#topology .broke-text', { hasText: 'pause' }).waitFor();
  await page.locator('#heal').click();
  await stateIs(page, name, 'closed', patience);
  await close();
});

test('each fault of each target can be clicked, is told, and heals', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await page.getByLabel('For how long').selectOption('0');
  const { targets } = (await statusOf(page)).lab;
  for (const { name, faults } of given ? targets.slice(0, 1) : targets) {
    for (const one of faults) {
      const button = page.locator(`.target[data-key="${name}"] [data-fault="${one}"]`);
      await button.click();
      await page.waitForSelector(`.target[data-key="${name}"] [data-fault="${one}"][aria-pressed=true]`, { timeout: patience });
    }
    await page.locator('#heal').click();
    await page.waitForSelector('.targets [aria-pressed=true]', { state: 'detached', timeout: patience });
  }
  await close();
});

test('a fault has an amount and a duration, and ends by itself', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  const { targets } = (await statusOf(page)).lab;
  const { name } = targets.find((t) => t.faults.includes('slow'));
  await page.getByLabel('For how long').selectOption('10');
  await page.getByLabel('Lag or slowness in ms').fill('180');
  await fault(page, 'slow', name).click();
  await page.locator('.target', { hasText: `${name}` }).getByText(/slow 180 ms, .* left/).waitFor();
  await page.waitForSelector('.targets [aria-pressed=true]', { state: 'detached', timeout: patience });
  await event(page, `${name}: slow ended`);
  await close();
});

test('a scenario asks first, then shows what it met beside what was predicted', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  const [scenario] = (await statusOf(page)).lab.scenarios;
  await page.getByRole('button', { name: `Play: ${scenario.title}` }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByText(scenario.question).first().waitFor();
  await dialog.getByLabel(scenario.answers[1], { exact: true }).check();
  await dialog.getByRole('button', { name: 'Run it' }).click();
  await page.locator('.run', { hasText: 'Running' }).waitFor();
  assert.ok(!(await page.locator('.run').innerText()).includes(scenario.shows), 'what it teaches is not told before its end');
  await page.locator('.run .badge', { hasText: /Passed|Failed/ }).waitFor({ timeout: patience });
  await page.locator('.run', { hasText: scenario.shows }).waitFor();
  const verdict = await page.locator('.verdict').innerText();
  assert.ok(verdict.includes(scenario.answers[1]), verdict);
  assert.match(await page.locator('.run').innerText(), /Passed[\s\S]*expectations held/);
  await event(page, `Scenario ${scenario.name}: passed`);
  await page.locator('.run').getByRole('button', { name: 'Close' }).click();
  await page.locator('.run').waitFor({ state: 'hidden' });
  await close();
});

const inSight = (page, selector) => page.waitForFunction((s) => {
  const box = document.querySelector(s)?.getBoundingClientRect();
  return box && box.height > 0 && box.top >= 0 && box.top < innerHeight - 80 && document.elementFromPoint(box.left + box.width / 2, box.top + 12)?.closest(s);
}, selector);

for (const [where, viewport] of [['a desk', { width: 1440, height: 700 }], ['a phone', { width: 390, height: 844 }]]) {
  test(`the card of a scenario is in sight while it runs and once it has ended, on ${where}`, async () => {
    const { page, close } = await open(browser, lab.url, { viewport });
    await live(page);
    const scenario = (await statusOf(page)).lab.scenarios.at(-1);
    await page.getByRole('button', { name: `Play: ${scenario.title}` }).click();
    const dialog = page.locator('dialog[open]');
    assert.ok(!(await dialog.innerText()).includes(scenario.shows), 'what it teaches is not told before');
    await dialog.getByLabel(scenario.answers[0], { exact: true }).check();
    await dialog.getByRole('button', { name: 'Run it' }).click();
    await page.locator('.run', { hasText: 'Running' }).waitFor();
    await inSight(page, '.run');
    await page.waitForFunction(() => document.activeElement?.id === 'run');
    await page.locator('.run .badge', { hasText: /Passed|Failed/ }).waitFor({ timeout: patience });
    await inSight(page, '.run');
    await close();
  });
}

test('a scenario is stopped, and all is mended', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  const [scenario] = (await statusOf(page)).lab.scenarios;
  await page.getByRole('button', { name: `Play: ${scenario.title}` }).click();
  await page.locator('dialog[open]').getByLabel(scenario.answers[0], { exact: true }).check();
  await page.locator('dialog[open]').getByRole('button', { name: 'Run it' }).click();
  await page.locator('.run').getByRole('button', { name: 'Stop' }).click();
  await page.locator('.run .badge', { hasText: 'Stopped' }).waitFor({ timeout: patience });
  await page.waitForSelector('.targets [aria-pressed=true]', { state: 'detached', timeout: patience });
  await close();
});

test('load is changed, and the same load runs unprotected beside', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  const reads = page.getByLabel('Reads a second', { exact: false });
  await reads.fill('200');
  await page.waitForFunction(async () => (await (await fetch('api/v1/status')).json()).lab.load.reads_per_sec === 200);
  const twin = page.getByLabel('The same load without Breakwater, beside');
  await twin.check();
  const { name } = (await statusOf(page)).replicas[0];
  await fault(page, 'pause replay', name).click();
  await page.locator('.beside').waitFor({ timeout: patience });
  await page.waitForFunction(() => Number(document.querySelector('.beside tbody tr td:last-child')?.textContent.replace(/[^\d.]/g, '')) > 0, null, { timeout: patience });
  assert.equal(await page.locator('.beside tbody tr').first().locator('td').first().innerText(), '0', 'with the library no answer is stale unflagged');
  await twin.uncheck();
  await page.locator('#heal').click();
  await card(page, name).waitFor();
  await close();
});
