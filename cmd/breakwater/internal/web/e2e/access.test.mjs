// For everybody: axe, the keyboard alone, a phone, less motion.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { accessible, card, fault, launch, live, open, standin, stateIs } from './harness.mjs';

let browser;
let lab;
before(async () => { [browser, lab] = await Promise.all([launch(), standin()]); });
after(async () => { await browser.close(); await lab.stop(); });

for (const colorScheme of ['light', 'dark']) {
  test(`axe finds nothing serious, ${colorScheme}: well, broken, selected, in a dialog, as tables, degraded, on a phone`, async () => {
    const { page, close } = await open(browser, lab.url, { colorScheme, reducedMotion: 'reduce' });
    await live(page);
    await page.waitForSelector('.plot canvas');
    await accessible(page, 'well');
    await page.getByLabel('For how long').selectOption('0');
    await fault(page, 'fail', 'webhooks').click();
    for (const name of ['r1', 'r2', 'r3']) await fault(page, 'kill', name).click();
    await page.waitForSelector('#banner .notice.bad');
    await card(page, 'webhooks').getByRole('button').click();
    await page.locator('.lot:has(h3:text-is("webhooks"))').getByRole('button', { name: 'Show letters' }).click();
    await page.waitForSelector('.letter-table');
    await page.locator('#detail summary:has-text("Lines to copy")').click();
    for (const name of ['Staleness', 'States']) await page.getByRole('button', { name: `${name} as a table` }).click();
    await page.waitForSelector('.toast', { state: 'detached' });
    await accessible(page, 'broken, degraded, selected');
    await page.getByRole('button', { name: 'Play: One replica lags' }).click();
    await page.waitForSelector('dialog[open]');
    await accessible(page, 'a dialog');
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.waitForSelector('dialog[open] kbd');
    await accessible(page, 'help');
    await page.keyboard.press('Escape');
    await page.setViewportSize({ width: 390, height: 844 });
    await accessible(page, 'a phone');
    await page.locator('#heal').click();
    await stateIs(page, 'r1', 'closed');
    await close();
  });
}

test('by keyboard alone: a replica is broken and healed, a breaker selected and let go, the log filtered', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await page.keyboard.press('2');
  await page.waitForSelector('#detail h2:has-text("r2")');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'r2');
  await page.keyboard.press('Escape');
  await page.locator('#detail').waitFor({ state: 'hidden' });
  await page.keyboard.press('f');
  await page.keyboard.press('Enter');
  await stateIs(page, 'r1', 'open');
  await page.keyboard.press('h');
  await stateIs(page, 'r1', 'closed');
  await page.keyboard.press('p');
  await page.waitForSelector('#pause[aria-pressed=true]');
  await page.keyboard.press('p');
  await page.keyboard.press('/');
  await page.keyboard.type('h p 1');
  assert.equal(await page.getByLabel('Filter events').inputValue(), 'h p 1', 'keys are letters in a field');
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.getByLabel('Single keys do this').uncheck();
  await page.keyboard.press('Escape');
  await page.keyboard.press('3');
  await page.locator('#detail').waitFor({ state: 'hidden' });
  await close();
});

test('the way by Tab: first to the content, and what has the focus shows it', async () => {
  const { page, close } = await open(browser, lab.url);
  await live(page);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to content');
  for (let i = 0; i < 25; i++) {
    await page.keyboard.press('Tab');
    const seen = await page.evaluate(() => { const el = document.activeElement; const of = (pseudo) => getComputedStyle(el, pseudo).outlineStyle; return el === document.body || of() !== 'none' || of('::after') !== 'none'; });
    assert.ok(seen, `focus ${i} is not to be seen`);
  }
  await close();
});

test('a phone: nothing is wider than the screen, and all parts can be reached', async () => {
  const { page, close } = await open(browser, lab.url, { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  await live(page);
  await page.waitForSelector('.plot canvas');
  const wide = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide[0] <= wide[1], `the page is ${wide[0]} wide on ${wide[1]}`);
  await page.locator('.parts').getByRole('link', { name: 'Lab' }).tap();
  await page.waitForFunction(() => document.querySelector('#lab').getBoundingClientRect().top < 200);
  await fault(page, 'pause replay', 'r2').tap();
  await stateIs(page, 'r2', 'open');
  await page.locator('#heal').tap();
  await stateIs(page, 'r2', 'closed');
  await close();
});

test('who wants less motion gets none', async () => {
  const { page, close } = await open(browser, lab.url, { reducedMotion: 'reduce' });
  await live(page);
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('.card')).transitionDuration), '0s');
  await close();
});
