// Long lists: few rows in the document, pages of the server as one scrolls, addresses that lead to a page; figures of a first
// view. tools/dev page does the same with 100,000 schedules and 1,000,000 events.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openBrowser, openPage, Platform, startReceiver, until } from './harness.mjs';
import { fill, firstViews } from './load.mjs';

const SCHEDULES = Number(process.env.PAGE_SCHEDULES ?? 1500);
const EVENTS = Number(process.env.PAGE_EVENTS ?? 3000);
let platform, receiver, browser;
before(async () => {
  receiver = await startReceiver();
  platform = await Platform.start();
  browser = await openBrowser();
  await fill(platform, receiver, { schedules: SCHEDULES, events: EVENTS });
}, { timeout: 600000 });
after(async () => {
  await browser?.close();
  await platform?.stop();
  receiver?.close();
});

test('a long list has few rows in the document and reads pages as one scrolls', { timeout: 90000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules' });
  await page.getByRole('link', { name: 's-000000' }).waitFor();
  const rows = () => page.locator('tbody tr:not(.gap)').count();
  const loaded = async () => Number((await page.locator('.below').textContent()).replace(/\D/g, ''));
  assert.ok((await rows()) < 80);
  for (let i = 0; i < 6; i++) {
    const before = await loaded();
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await until(async () => (await loaded()) > before, 'the next page');
  }
  assert.ok((await loaded()) >= 1000);
  assert.ok((await rows()) < 80, 'only rows near the window are in the document');
  // The address leads to the page that one looks at.
  await until(() => page.url().includes('at='), 'the address has the page');
  const shown = (await page.locator('tbody tr:not(.gap) a.cell').allTextContents()).at(-1);
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.getByText('The list begins in the middle').waitFor();
  await until(async () => (await other.locator('tbody tr:not(.gap) a.cell').allTextContents()).some((name) => Math.abs(Number(name.slice(2)) - Number(shown.slice(2))) < 400), 'the same page');
  await other.getByRole('button', { name: 'Go to its start' }).click();
  await other.getByRole('link', { name: 's-000000' }).waitFor();
  page.check();
  await page.context().close();
});

test('rows of different heights fill the window wherever one scrolls', { timeout: 90000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules', context: { viewport: { width: 360, height: 740 } } });
  // Every third row is much higher than the others.
  await page.context().route(/\/v1\/tenants\/default\/schedules\?/, async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    json.schedules?.forEach((each, i) => void (i % 3 || (each.displayName = 'a long text for people '.repeat(8))));
    await route.fulfill({ response, json });
  });
  await page.reload();
  await page.getByRole('link', { name: 's-000000' }).waitFor();
  const blank = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const inTable = document.querySelector('tbody').getBoundingClientRect();
    done([20, innerHeight / 2, innerHeight - 20].filter((y) => y > inTable.top && y < inTable.bottom && !document.elementFromPoint(180, y)?.closest('tr:not(.gap)')));
  }))));
  const loaded = async () => Number((await page.locator('.below').textContent()).replace(/\D/g, ''));
  for (let i = 0; i < 4; i++) {
    const before = await loaded();
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await until(async () => (await loaded()) > before, 'the next page');
    await until(async () => (await blank()).length === 0, 'rows at the end');
  }
  const height = await page.evaluate(() => document.body.scrollHeight);
  for (const part of [0.9, 0.5, 0.51, 0.2, 0, 0.7]) {
    await page.evaluate((top) => scrollTo(0, top), height * part);
    await until(async () => (await blank()).length === 0, `rows at ${part} of the list`);
    assert.ok((await page.locator('tbody tr:not(.gap)').count()) < 80);
  }
  // The rows move as far as one scrolls, and do not jump.
  await page.evaluate(() => scrollTo(0, 0));
  await until(async () => (await page.locator('tbody tr:not(.gap) a.cell').first().textContent()) === 's-000000', 'the first row');
  const names = await page.locator('tbody tr:not(.gap) a.cell').allTextContents();
  assert.deepEqual(names.slice(0, 5), ['s-000000', 's-000001', 's-000002', 's-000003', 's-000004']);
  const moves = await page.evaluate(async () => {
    const settled = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));
    const moved = [];
    for (let step = 0; step < 40; step++) {
      const by = step < 30 ? 200 : -200;
      const row = document.elementFromPoint(180, by > 0 ? innerHeight - 40 : 40)?.closest('tr:not(.gap)');
      const before = row?.getBoundingClientRect().top ?? NaN;
      scrollBy(0, by);
      await settled();
      moved.push(Math.round(before - row.getBoundingClientRect().top) / by);
    }
    return moved.filter((ratio) => Math.abs(ratio - 1) > 0.02);
  });
  assert.deepEqual(moves, []);
  page.check();
  await page.context().unrouteAll({ behavior: 'wait' });
  await page.context().close();
});

test('a list that is filtered finds what is far behind', async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules' });
  const last = `s-${String(SCHEDULES - 1).padStart(6, '0')}`;
  await page.getByLabel('Find', { exact: true }).fill(last);
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: last }).waitFor();
  assert.equal(await page.locator('tbody tr:not(.gap)').count(), 1);
  await page.context().close();
});

test('first views are quick', { timeout: 90000 }, async () => {
  const figures = await firstViews(browser, platform);
  console.log(JSON.stringify(figures));
  for (const [name, { files, cold }] of Object.entries(figures)) {
    assert.ok(files < 120000, `${name}: the page weighs ${files} bytes`);
    // 300 ms on a quiet machine; here others may use the processor.
    assert.ok(cold < 3000, `${name}: the first data after ${cold} ms`);
  }
});
