// Dead letters in groups of one schedule and error: what they show, where they lead, what changed before, and their redrive.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, MARKUP, openBrowser, openPage, Platform, startReceiver, until } from './harness.mjs';

let platform, receiver, browser, page;
const tenant = '/tenants/default';
const once = { retryPolicy: { maxAttempts: 1 } };
const letters = async (filter) => (await platform.api('GET', `${tenant}/deadLetters?filter=${encodeURIComponent(filter)}`)).deadLetters ?? [];
const groups = async () => (await platform.api('GET', `${tenant}/deadLetterGroups`)).groups ?? [];

before(async () => {
  receiver = await startReceiver();
  platform = await Platform.start();
  browser = await openBrowser();
  const to = (path) => ({ http: { uri: receiver.url + path } });
  // Worked, then was aimed elsewhere, then got a label only.
  await platform.schedule('orders', { cron: '0 0 1 1 *', eventCount: '4', ...once, target: to('/ok') });
  await platform.api('PATCH', `${tenant}/schedules/orders?updateMask=target,deliveryTimeout`, { target: to('/repairable'), deliveryTimeout: '7s' });
  await platform.api('PATCH', `${tenant}/schedules/orders?updateMask=labels`, { labels: { team: 'shop' } });
  await platform.schedule('new-mail', { cron: '0 0 1 1 *', eventCount: '2', ...once, target: to('/fail') });
  for (const id of ['orders', 'new-mail']) await platform.run(id);
  await platform.api('POST', `${tenant}/events?eventId=lost-invoice`, { dueTime: new Date().toISOString(), ...once, target: to('/fail') });
  await until(async () => (await groups()).map((group) => group.count).join() === '4,2,1', 'three groups');
  page = await openPage(browser, platform, { where: '/ui/default/dead-letters' });
});
after(async () => {
  await browser?.close();
  await platform?.stop();
  receiver?.close();
});

const main = () => page.locator('main');
const group = (name) => main().getByRole('region', { name: 'What failed alike in the last 24 h' }).getByRole('listitem').filter({ hasText: name });
const rows = () => page.getByRole('table', { name: 'Dead letters' }).locator('tbody tr');
const open = async (where) => {
  await page.goto(`${platform.origin}/ui/default/${where}`);
  await page.locator('main h1').waitFor();
};

test('groups stand above the list, the largest first, with their number, error, picture and age', { timeout: 60000 }, async () => {
  await open('dead-letters');
  await group('orders').waitFor();
  const names = await main().locator('.groups > li strong').allTextContents();
  assert.deepEqual(names, ['orders', 'new-mail', 'One-off events']);
  await group('orders').getByText('4 events').waitFor();
  // The error of the last one, with its digits.
  await until(async () => /the disk is full <img src=x onerror="window.hacked=1">/.test(await group('orders').locator('.error').innerText()), 'the error');
  assert.match(await group('orders').getByRole('button', { name: /^Redrive 4/ }).getAttribute('title'), /no new run$/);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  const spark = group('orders').getByRole('img');
  assert.match(await spark.getAttribute('aria-label'), /^Failed in 1 of 24 parts of 1 h; most, 4, in the part from \d\d:\d\d$/);
  assert.equal(await spark.locator('rect:not(.ground)').count(), 1);
  assert.match(await group('orders').innerText(), /last (now|[\d.]+ (s|ms|min).* ago)/);
  await group('orders').getByRole('link', { name: 'orders', exact: true }).click();
  await page.getByRole('heading', { name: 'orders', exact: true }).waitFor();
  page.check();
});

test('the number of a group leads to exactly its dead letters, by an address', { timeout: 60000 }, async () => {
  await open('dead-letters');
  await group('new-mail').getByRole('link', { name: /^2 events of new-mail/ }).click();
  await page.getByText('The list has one group only').waitFor();
  await main().getByText('2 dead letters', { exact: true }).waitFor();
  assert.deepEqual(await rows().filter({ hasText: 'new-mail' }).count(), 2);
  await page.reload();
  await main().getByText('2 dead letters', { exact: true }).waitFor();
  assert.equal(await main().locator('.groups').count(), 0);
  await page.getByRole('link', { name: 'Show all dead letters' }).click();
  await group('orders').waitFor();
  await main().getByText('7 dead letters', { exact: true }).waitFor();
  // The groups are those of what the user looks for.
  await page.getByLabel('Find', { exact: true }).fill('schedule = ""');
  await page.keyboard.press('Enter');
  await group('orders').waitFor({ state: 'detached' });
  await group('One-off events').getByText('1 event', { exact: true }).waitFor();
  await open('dead-letters?within=1');
  await main().getByRole('region', { name: 'What failed alike in the last 1 h' }).getByText('4 events').waitFor();
  page.check();
});

test('what changed before a group began to fail is said when it is asked for', { timeout: 60000 }, async () => {
  const asked = [];
  page.on('request', (request) => request.url().includes('/versions') && asked.push(new URL(request.url()).pathname));
  await open('dead-letters');
  await group('orders').waitFor();
  assert.deepEqual(asked, []);
  await group('orders').getByText('What changed before it began to fail?').click();
  await group('orders').getByText('before the first failure').waitFor();
  assert.match(await group('orders').locator('details').innerText(), /First failure: .*\n+Version 2, .* before the first failure: target, delivery timeout$/);
  assert.deepEqual(asked, ['/v1/tenants/default/schedules/orders/versions']);
  // By the keyboard.
  await group('new-mail').locator('summary').focus();
  await page.keyboard.press('Enter');
  await group('new-mail').getByText(/^Version 1, .* before the first failure: the schedule was created$/).waitFor();
  assert.equal(await group('One-off events').locator('details').count(), 0);
  page.check();
});

test('a failure that began before the time that is shown is said to have begun then', { timeout: 60000 }, async () => {
  const began = new Date(Date.now() - 5 * 86400000).toISOString();
  await page.route(/deadLetters\?.*orderBy=create_time/, async (route) => {
    const filter = new URL(route.request().url()).searchParams.get('filter');
    assert.match(filter, /^schedule = "orders" AND error = ".*"$/);
    await route.fulfill({ json: { deadLetters: [{ name: 'tenants/default/deadLetters/x', createTime: began }] } });
  });
  await open('dead-letters');
  await group('orders').getByText('What changed before it began to fail?').click();
  await group('orders').getByText('No version from before the first failure is kept.').waitFor();
  await group('orders').getByText(/^5 d( \d+ (s|min))? ago$/).waitFor();
  await page.unroute(/deadLetters\?.*orderBy=create_time/);
  page.check();
});

test('groups are accessible and fit the window, in both schemes', { timeout: 90000 }, async () => {
  for (const [colorScheme, width] of [['light', 1280], ['dark', 768], ['dark', 360]]) {
    const other = await openPage(browser, platform, { where: '/ui/default/dead-letters', context: { colorScheme, viewport: { width, height: 900 } } });
    await other.locator('.groups > li').first().waitFor();
    await other.getByText('What changed before it began to fail?').first().click();
    await other.getByText('before the first failure').first().waitFor();
    assert.deepEqual(await axe(other), [], `${colorScheme} ${width}`);
    const wide = await other.evaluate(() => [...document.querySelectorAll('.groups *')].filter((each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0 && getComputedStyle(each).display !== 'inline' && !(each instanceof SVGElement)).map((each) => each.outerHTML.slice(0, 90)));
    assert.deepEqual(wide, [], `${colorScheme} ${width}`);
    assert.equal(await other.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth), false, `${colorScheme} ${width}`);
    other.check();
    await other.context().close();
  }
});

test('a viewer sees groups and no button to redrive them', { timeout: 60000 }, async () => {
  for (const role of ['VIEWER', 'OPERATOR']) {
    const { secret } = await platform.api('POST', `${tenant}/keys`, { displayName: role, role });
    await until(async () => (await platform.raw('GET', `/v1${tenant}/deadLetterGroups`, { key: secret })).status === 200, 'the key');
    const other = await openPage(browser, platform, { key: secret, where: '/ui/default/dead-letters' });
    await other.locator('.groups > li').first().waitFor();
    assert.equal(await other.getByRole('button', { name: /^Redrive \d+ of/ }).count(), role === 'OPERATOR' ? 3 : 0, role);
    other.check();
    await other.context().close();
  }
});

test('many groups are shown when they are asked for, and a cut answer says so', { timeout: 60000 }, async () => {
  const [first] = await groups();
  await page.route(/deadLetterGroups/, (route) => route.fulfill({ json: { groups: Array.from({ length: 9 }, (_, i) => ({ ...first, schedule: `${tenant.slice(1)}/schedules/s${i}`, error: `${MARKUP} ${i}` })), more: true, startTime: new Date(Date.now() - 86400000).toISOString(), endTime: new Date().toISOString() } }));
  await open('dead-letters');
  await main().getByText('Not everything was counted').waitFor();
  assert.equal(await main().locator('.groups > li').count(), 6);
  await page.getByRole('button', { name: 'Show all 9 groups' }).click();
  await main().locator('.groups > li').nth(8).waitFor();
  await page.reload();
  await main().locator('.groups > li').nth(8).waitFor();
  assert.equal(await main().locator('.groups img').count(), 0);
  await page.unroute(/deadLetterGroups/);
  page.check();
});

test('the redrive of a group asks first, takes its filter, and leaves the others', { timeout: 60000 }, async () => {
  await open('dead-letters');
  const before_ = (await letters('')).length;
  const button = group('orders').getByRole('button', { name: /^Redrive 4 of orders/ });
  await button.click();
  await page.getByRole('dialog').getByText('Redrive 4 events?').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await letters('')).length, before_);
  receiver.state.broken = false;
  await button.click();
  await page.getByRole('dialog').getByRole('button', { name: 'Redrive 4' }).click();
  await until(async () => (await letters('')).length === before_ - 4, 'the group is redriven');
  assert.equal((await letters('schedule = orders')).length, 0);
  await group('orders').waitFor({ state: 'detached' });
  await group('new-mail').waitFor();
  const [operation] = (await platform.api('GET', `${tenant}/operations`)).operations;
  assert.match(operation.filter, /^schedule = "orders" AND error = /);
  page.check();
});

test('a group of a schedule that is gone says so', { timeout: 60000 }, async () => {
  await platform.api('DELETE', `${tenant}/schedules/new-mail`);
  await open('dead-letters');
  await group('new-mail').getByText('What changed before it began to fail?').click();
  await group('new-mail').getByText('The schedule has been deleted').waitFor();
  page.check();
});
