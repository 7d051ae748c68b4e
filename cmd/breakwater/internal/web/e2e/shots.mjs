// Takes the pictures of docs/page.md: `tools/page-test.sh --shots` runs it against a lab with a replica paused and a consumer slow.
import { fileURLToPath } from 'node:url';
import { fault, launch, live, open, stateIs } from './harness.mjs';

const url = process.env.PAGE_URL;
const into = fileURLToPath(new URL('../../../../../docs/img/', import.meta.url));
const browser = await launch();
const { page, close } = await open(browser, url, { colorScheme: 'light', viewport: { width: 1440, height: 1060 } });
const settle = (ms) => page.evaluate((wait) => new Promise((done) => setTimeout(done, wait)), ms);
const shoot = async (name, options = {}) => {
  await page.waitForSelector('.toast', { state: 'detached' });
  await settle(600);
  await page.screenshot({ path: `${into}${name}.png`, ...options });
};

await live(page);
const status = await page.evaluate(async () => (await fetch('api/v1/status')).json());
const [replica, consumer] = [status.replicas[1].name, status.consumers[1].name];
for (const { name } of status.consumers) { // a busy machine is not to open what nobody broke
  await page.evaluate((who) => fetch(`api/v1/breakers/${who}`, { method: 'PATCH', headers: { 'Content-Type': 'application/json' }, body: '{"slow_ms":150}' }), name);
}
await settle(Math.max(0, 75_000 - (Date.parse(status.at) - Date.parse(status.started)))); // so that the charts are full, and the start is no part of them
await page.getByRole('button', { name: '1 min', exact: true }).click();
await page.getByLabel('For how long').selectOption('60');
await fault(page, 'slow', consumer).click();
await fault(page, 'pause replay', replica).click();
await stateIs(page, replica, 'open', 60_000);
await settle(9000);
await page.evaluate(() => scrollTo(0, 0));
await shoot('page-light');
await page.emulateMedia({ colorScheme: 'dark' });
await page.evaluate(() => document.querySelector('#charts').scrollIntoView());
await shoot('page-dark');
await page.emulateMedia({ colorScheme: 'light' });
await page.setViewportSize({ width: 390, height: 844 });
await page.evaluate(() => scrollTo(0, 0));
await shoot('page-phone');
await page.locator('#heal').click();
await close();
await browser.close();
