// Finding things, and changing many: the palette, search by words and labels, orders, bulk changes, saved views, and the page at /docs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { axe, MARKUP, openBrowser, openPage, Platform, seed, startReceiver, until } from './harness.mjs';

const TARGET = { http: { uri: 'http://127.0.0.1:9/none' } };
let platform, receiver, browser;
const keys = {};
before(async () => {
  receiver = await startReceiver();
  platform = await Platform.start();
  browser = await openBrowser();
  await seed(platform, receiver);
  for (const tenant of ['many', 'bulk', 'orders']) await platform.api('POST', `/tenants?tenantId=${tenant}`, {});
  for (const role of ['VIEWER', 'OPERATOR']) {
    keys[role] = (await platform.api('POST', '/tenants/bulk/keys', { role, displayName: role })).secret;
    await until(async () => (await platform.raw('GET', '/v1/tenants/bulk', { key: keys[role] })).status === 200, `the key of a ${role}`);
  }
}, { timeout: 120000 });
after(async () => {
  await browser?.close();
  await platform?.stop();
  receiver?.close();
});

/** Makes schedules PREFIX-0000… that fire once a year. */
async function fill(tenant, prefix, number, more = () => ({})) {
  for (let from = 0; from < number; from += 1000) {
    const requests = Array.from({ length: Math.min(1000, number - from) }, (_, i) => ({ scheduleId: `${prefix}-${String(from + i).padStart(5, '0')}`, schedule: { cron: '0 0 1 1 *', target: TARGET, ...more(from + i) } }));
    const { results } = await platform.api('POST', `/tenants/${tenant}/schedules:batchCreate`, { requests });
    assert.deepEqual(results.filter((each) => each.error), []);
  }
}
const field = (page) => page.getByRole('combobox', { name: /^Find schedules/ });
const choices = async (page) => (await page.locator('#choices [role=option]').allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim());
const names = (page) => page.locator('tbody tr:not(.gap) a.cell').allInnerTexts();
/** The list shows so many rows, or has them below the window. */
const listed = (page, number) => until(async () => (await page.locator('.below').innerText()).startsWith(`${number} schedule`), `${number} schedules`);
const settled = (page) => until(async () => /^\d+ choices$/.test(await page.locator('.palette-foot p').innerText()), 'the search ends');
/** Moves to a choice with the arrow key alone, and takes it. Searches of lists are left out. */
async function take(page, name) {
  await settled(page);
    for (let i = 0; i < 60; i++) {
    const id = await field(page).getAttribute('aria-activedescendant');
    if (await page.locator(`#${id}`).evaluate((option, text) => !option.innerText.includes('All ') && option.querySelector('.choice-title').innerText.includes(text), name)) return page.keyboard.press('Enter');
    await page.keyboard.press('ArrowDown');
  }
  assert.fail(`the arrow key does not reach ${name}`);
}

test('the palette finds everything with the keyboard alone', { timeout: 90000 }, async () => {
  const page = await openPage(browser, platform);
  await page.locator('.tile .figure').first().waitFor();
  await page.keyboard.press('/');
  await field(page).waitFor();
  assert.equal(await field(page).evaluate((input) => document.activeElement === input), true);
  assert.deepEqual((await choices(page)).slice(0, 5), ['New schedule', 'New event', 'New policy', 'New calendar', 'New notification']);
  await page.keyboard.type('report');
  await take(page, 'nightly-report');
  await page.getByRole('heading', { name: 'nightly-report', exact: true }).waitFor();
  assert.equal(await page.getByRole('heading', { name: 'nightly-report', exact: true }).evaluate((heading) => document.activeElement === heading), true, 'the view is read from its heading on');
  for (const [text, name, heading] of [
    ['lost-invoice', 'lost-invoice', 'Event lost-invoice'], ['reminder', 'later-reminder', 'Event later-reminder'], ['welcome', 'welcome-mail', 'Event welcome-mail'],
    ['gentle', 'gentle', 'gentle'], ['Days off', 'holidays', 'holidays'], ['Those on', 'on-call', 'on-call'], ['127.0.0.1', '127.0.0.1', 'Targets'], ['dead', 'Dead letters', 'Dead letters'], ['events/lost-invoice', 'Open events/lost-invoice', 'Event lost-invoice'], ['new sch', 'New schedule', 'New schedule'],
  ]) {
    await page.keyboard.press('Control+k');
    await page.keyboard.type(text); // no key is lost
    await take(page, name);
    await page.getByRole('heading', { name: heading, exact: true, level: 1 }).waitFor();
  }
  // A dead letter by the id of its event.
  await page.keyboard.press('Meta+k');
  await page.keyboard.type('lost-inv');
  await settled(page);
  await page.getByRole('group', { name: 'Dead letters' }).getByRole('option').click();
  await page.getByRole('heading', { name: 'Dead letter', exact: true }).waitFor();
  // Recent choices come first, the last one at the top.
  await page.keyboard.press('/');
  await field(page).waitFor();
  assert.equal((await choices(page))[0], 'lost-invoice Dead letter');
  assert.ok(!(await page.evaluate(() => JSON.stringify({ ...localStorage }))).includes('disk'), 'answers of consumers are not kept');
  assert.match((await choices(page))[1], /^New schedule/);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  page.check();
  await page.context().close();
});

test('a slash in a field is a slash, and Escape gives the focus back', async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules' });
  await page.getByLabel('Find', { exact: true }).click();
  await page.keyboard.type('a/b');
  assert.equal(await page.getByLabel('Find', { exact: true }).inputValue(), 'a/b');
  assert.equal(await page.getByRole('dialog').count(), 0);
  await page.keyboard.press('Control+k');
  await field(page).waitFor();
  assert.equal(await page.getByRole('dialog').count(), 1);
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  assert.equal(await page.getByLabel('Find', { exact: true }).evaluate((input) => document.activeElement === input), true);
  page.check();
  await page.context().close();
});

test('an action on a schedule is typed: pause, its name', async () => {
  const page = await openPage(browser, platform);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('pause');
  await take(page, 'Pause: choose a schedule…');
  assert.equal(await field(page).inputValue(), 'Pause ');
  await page.keyboard.type('import');
  await take(page, 'Pause import-orders');
  await page.getByRole('dialog', { name: 'Pause import-orders?' }).waitFor();
  await page.keyboard.type('by palette');
  await page.keyboard.press('Enter');
  await page.getByText('import-orders is paused.').waitFor();
  assert.equal((await platform.api('GET', '/tenants/default/schedules/import-orders')).pauseReason, 'by palette');
  await platform.api('POST', '/tenants/default/schedules/import-orders:resume');
  page.check();
  await page.context().close();
});

test('the palette asks for one thing of each kind at a time, and drops what is outdated', async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/operations' }); // it asks for none of these kinds by itself
  const open = new Set(); // calls under way
  let most = 0;
  const asked = [];
  const kindOf = (request) => /\/v1\/tenants\/default\/(schedules|events|policies|calendars|subscriptions|targets|deadLetters)/.exec(request.url())?.[1];
  const onEnd = (request) => void open.delete(request);
  await page.keyboard.press('/');
  await field(page).waitFor();
  page.on('request', (request) => {
    const kind = kindOf(request);
    asked.push(request.url());
    open.add(request);
    if (kind) most = Math.max(most, [...open].filter((each) => kindOf(each) === kind).length);
  });
  page.on('requestfinished', onEnd);
  page.on('requestfailed', onEnd);
  let held;
  await page.context().route(/\/schedules\?.*night/, (route) => {
    if (held) return route.continue();
    held = route; // the first answer never comes
  });
  await page.keyboard.type('nig');
  await page.keyboard.type('ht');
  await until(() => held, 'the first call');
  assert.ok(!asked.some((url) => /nig(\*|%2A|%22)/.test(url)), 'nothing is asked between the keys');
  await page.keyboard.type('ly');
  await page.getByRole('option', { name: /^nightly-report/ }).waitFor();
  await settled(page);
  assert.equal(most, 1);
  assert.ok(asked.some((url) => url.includes('nightly')));
  page.check();
  await page.context().close();
});

test('words are parts of names or texts, team=billing is a label', { timeout: 60000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules' });
  await page.getByRole('link', { name: 'nightly-report' }).waitFor();
  for (const [text, found] of [
    ['team=billing', ['billing-sync', 'nightly-report']], ['team=billing night', ['nightly-report']], ['ORDERS', ['import-orders']], ['report of', ['nightly-report']],
    ['team:', ['billing-sync', 'import-orders', 'nightly-report']], ['html="<b>bold</b>"', ['markup']], ['labels.team = "shop"', ['import-orders']], ['state=PAUSED', ['paused-cleanup']], ['-', ['billing-sync', 'import-orders', 'nightly-report', 'paused-cleanup']],
  ]) {
    await page.getByLabel('Find', { exact: true }).fill(text);
    await page.keyboard.press('Enter');
    await until(async () => JSON.stringify(await names(page)) === JSON.stringify(found), `${text}: ${found}`);
  }
  await page.getByLabel('Find', { exact: true }).fill('no=such');
  await page.keyboard.press('Enter');
  await page.getByText('No schedule matches.').waitFor();
  page.check();
  await page.context().close();
});

test('schedules are sorted by name, next time, last run and failures', { timeout: 90000 }, async () => {
  for (const [id, cron] of [['a-later', '0 0 1 1 *'], ['b-soon', '*/1 * * * *'], ['c-never', '0 0 1 1 *']]) await platform.schedule(id, { cron, target: { http: { uri: `${receiver.url}${id === 'c-never' ? '/fail' : '/ok'}` } }, retryPolicy: { maxAttempts: 1 } }, 'orders');
  for (const id of ['a-later', 'c-never']) await platform.ended((await platform.run(id, {}, 'orders')).name);
  await until(async () => (await platform.api('GET', '/tenants/orders/schedules/c-never')).failedCount === '1', 'the failure is counted');
  await platform.api('POST', '/tenants/orders/schedules/c-never:pause');
  const page = await openPage(browser, platform, { where: '/ui/orders/schedules' });
  const order = async (value, found) => {
    await page.getByLabel('Sort by').selectOption(value);
    await until(async () => (await names(page)).join() === found, `${value}: ${found}`);
  };
  await order('-name', 'c-never,b-soon,a-later');
  await order('next', 'b-soon,a-later,c-never');
  await order('failures', 'c-never,a-later,b-soon');
  assert.match(page.url(), /sort=failures/);
  await platform.api('POST', '/tenants/orders/schedules/b-soon:pause');
  // Without b-soon, which may run meanwhile.
  await page.getByLabel('Find', { exact: true }).fill('e');
  await page.keyboard.press('Enter');
  await order('last', 'c-never,a-later');
  await order('-last', 'a-later,c-never');
  page.check();
  await page.context().close();
});

test('schedules are found by where they send to', { timeout: 60000 }, async () => {
  const at = (uri) => ({ cron: '0 0 1 1 *', target: { http: { uri } } });
  for (const [id, uri] of [['to-orders', 'http://shop.example:781/orders'], ['to-bills', 'http://shop.example:781/bills?now'], ['to-other-port', 'http://shop.example:7811/'], ['to-another', 'https://shop.example.org/']]) await platform.schedule(id, at(uri));
  const page = await openPage(browser, platform, { where: '/ui/default/schedules' });
  const shown = async (text, names) => {
    await page.getByLabel('Find', { exact: true }).fill(text);
    await page.keyboard.press('Enter');
    await until(async () => (await page.getByRole('table').locator('tbody tr').evaluateAll((rows) => rows.map((row) => row.querySelector('a').textContent).join())) === names, `${text} finds ${names}`);
  };
  await shown('shop.example:781', 'to-bills,to-orders,to-other-port');
  await shown('http://shop.example:781', 'to-bills,to-orders');
  await shown('http://shop.example:781 name:orders', 'to-orders');
  await shown('http://shop.example:781 bills', 'to-bills');
  // "All that match" means these schedules, not all of the tenant.
  await page.getByText('All that match:').waitFor();
  await page.getByRole('button', { name: 'Pause…' }).click();
  await page.getByRole('dialog').getByText('Pause: 1 schedule?').waitFor();
  await page.keyboard.press('Escape');
  await shown('shop.example:1', '');
  await page.getByText('No schedule matches.').waitFor();
  page.check();
  await page.context().close();
});

test('of more schedules than it reads, the list says that it sorted the first', { timeout: 120000 }, async () => {
  await fill('many', 'm', 10050, (i) => ({ cron: i === 10020 ? '*/5 * * * *' : '0 0 1 1 *' }));
  const page = await openPage(browser, platform, { where: '/ui/many/schedules?sort=next' });
  await page.getByText('Sorted among the first 10,000 by name; there are more.').waitFor();
  assert.equal((await names(page))[0], 'm-00000');
  await page.getByRole('button', { name: 'Sort up to 100,000' }).click();
  await until(async () => (await names(page))[0] === 'm-10020', 'all are sorted');
  assert.equal(await page.getByText('there are more').count(), 0);
  assert.ok((await page.locator('tbody tr:not(.gap)').count()) < 80);
  page.check();
  await page.context().close();
});

test('many are paused after a count, eight at a time; what fails is named and tried again', { timeout: 90000 }, async () => {
  await fill('bulk', 'p', 40, (i) => ({ labels: { half: String(i % 2) } }));
  const page = await openPage(browser, platform, { where: '/ui/bulk/schedules', key: keys.OPERATOR });
  await page.getByRole('link', { name: 'p-00000' }).waitFor();
  const bar = page.getByRole('group', { name: 'Change many schedules' });
  assert.equal(await bar.getByRole('button', { name: 'Delete…' }).count(), 0, 'an operator deletes nothing');
  await page.getByLabel('Find', { exact: true }).fill('half=1');
  await page.keyboard.press('Enter');
  await listed(page, 20);
  let open = 0, most = 0;
  const refuse = 'p-00021';
  await page.context().route(/:pause$/, async (route) => {
    most = Math.max(most, ++open);
    const answer = route.request().url().includes(refuse) ? route.fulfill({ status: 503, json: { error: { message: 'the store is busy' } } }) : route.continue();
    await answer.finally(() => open--);
  });
  await bar.getByRole('button', { name: 'Pause…' }).click();
  await page.getByRole('dialog', { name: 'Pause: 20 schedules?' }).waitFor();
  // One of them goes away between the count and the change.
  await platform.api('DELETE', '/tenants/bulk/schedules/p-00005');
  await page.getByRole('button', { name: 'Pause 20' }).click();
  const report = page.getByRole('region', { name: 'Change of many schedules' });
  await report.getByText('Pause: 18 of 20 schedules paused, 2 failed.').waitFor();
  await report.getByText('p-00021: the store is busy').waitFor();
  await report.getByText('p-00005: tenants/bulk/schedules/p-00005 does not exist').waitFor();
  assert.ok(most <= 8, `${most} calls at once`);
  const paused = async () => (await platform.api('GET', '/tenants/bulk/schedules?pageSize=1000&filter=state%20%3D%20PAUSED')).schedules.map((each) => each.name.split('/').pop());
  assert.equal((await paused()).length, 18);
  assert.ok(!(await paused()).includes('p-00000'), 'those that do not match are left alone');
  await page.context().unroute(/:pause$/);
  await report.getByRole('button', { name: 'Try the 2 again' }).click();
  await report.getByText('Pause: 19 of 20 schedules paused, 1 failed.').waitFor();
  assert.ok((await paused()).includes(refuse));
  for (const violation of await axe(page)) assert.fail(violation);
  await report.getByRole('button', { name: 'Close this report' }).click();
  await report.waitFor({ state: 'detached' });
  // Only those that are paused are resumed, of all that match.
  await page.getByLabel('Find', { exact: true }).fill('');
  await page.keyboard.press('Enter');
  await listed(page, 39);
  await bar.getByRole('button', { name: 'Resume…' }).click();
  await page.getByRole('button', { name: 'Resume 19' }).click();
  await page.getByText('Resume: 19 of 19 schedules resumed.').waitFor();
  assert.deepEqual(await paused(), []);
  page.check();
  await page.context().close();
});

test('a change of many can be stopped and goes on later', { timeout: 60000 }, async () => {
  await fill('bulk', 'stop', 30);
  const page = await openPage(browser, platform, { where: '/ui/bulk/schedules?q=stop-', key: keys.OPERATOR });
  await listed(page, 30);
  const held = [];
  let holding = true;
  await page.context().route(/:trigger$/, (route) => (holding ? void held.push(route) : route.continue()));
  await page.getByRole('button', { name: 'Run now…' }).click();
  await page.getByText('That is 30 events.').waitFor();
  await page.getByRole('button', { name: 'Run now 30' }).click();
  await until(() => held.length === 8, 'eight calls');
  // It goes on while another view is looked at.
  await page.getByRole('link', { name: 'Policies' }).click();
  await page.getByRole('heading', { name: 'Policies' }).waitFor();
  await page.goBack();
  await page.getByText('Run now: 0 of 30 schedules run.').waitFor();
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  holding = false;
  assert.equal(held.length, 8);
  for (const route of held) await route.continue();
  await page.getByText('Run now: 8 of 30 schedules run, 22 left alone.').waitFor();
  await page.getByRole('button', { name: 'Go on with 22' }).click();
  await page.getByText('Run now: 30 of 30 schedules run.').waitFor();
  page.check();
  await page.context().close();
});

test('a change of many waits for a new sign-in and loses nothing', { timeout: 60000 }, async () => {
  await fill('bulk', 'auth', 12);
  const page = await openPage(browser, platform, { where: '/ui/bulk/schedules?q=auth-', key: keys.OPERATOR });
  await listed(page, 12);
  const held = [];
  let holding = true;
  await page.context().route(/:pause$/, (route) => (holding ? void held.push(route) : route.continue()));
  await page.getByRole('button', { name: 'Pause…' }).click();
  await page.getByRole('button', { name: 'Pause 12' }).click();
  await until(() => held.length === 8, 'eight calls');
  holding = false;
  await held[0].continue();
  await until(async () => (await platform.api('GET', `/tenants/bulk/schedules/${/auth-\d+/.exec(held[0].request().url())}`)).state === 'PAUSED', 'the first one');
  for (const route of held.slice(1)) await route.fulfill({ status: 401, json: { error: { message: 'no valid credentials' } } });
  await page.getByLabel('API key').fill(keys.OPERATOR);
  await page.keyboard.press('Enter');
  const left = page.getByRole('button', { name: /^Go on with / });
  await left.waitFor();
  assert.ok(Number((await left.innerText()).replace(/\D/g, '')) >= 7);
  await left.click();
  await page.getByText('Pause: 12 of 12 schedules paused.').waitFor();
  assert.equal((await platform.api('GET', '/tenants/bulk/schedules?pageSize=1000&filter=name%20%3D%20%22auth-*%22%20AND%20state%20%3D%20PAUSED')).schedules.length, 12);
  page.check();
  await page.context().close();
});

test('selected rows are deleted in batches, and viewers change nothing', { timeout: 60000 }, async () => {
  await fill('bulk', 'd', 5);
  const page = await openPage(browser, platform, { where: '/ui/bulk/schedules?q=d-0&sort=next' });
  await listed(page, 5);
  for (const i of [1, 3]) await page.getByRole('checkbox', { name: `Select tenants/bulk/schedules/d-0000${i}` }).check();
  await page.getByText('2 selected:').waitFor();
  let calls = 0;
  page.on('request', (request) => void (request.url().endsWith(':batchDelete') && calls++));
  await page.getByRole('button', { name: 'Delete…' }).click();
  await page.getByRole('dialog', { name: 'Delete: 2 schedules?' }).waitFor();
  await platform.api('DELETE', '/tenants/bulk/schedules/d-00003');
  await page.getByRole('button', { name: 'Delete 2' }).click();
  await page.getByText('Delete: 1 of 2 schedules deleted, 1 failed.').waitFor();
  assert.equal(calls, 1);
  await until(async () => (await names(page)).join() === 'd-00000,d-00002,d-00004', 'the list without them');
  page.check();
  await page.context().close();
  const viewer = await openPage(browser, platform, { where: '/ui/bulk/schedules?q=d-0', key: keys.VIEWER });
  await viewer.getByRole('link', { name: 'd-00000' }).waitFor();
  assert.equal(await viewer.getByRole('group', { name: 'Change many schedules' }).count(), 0);
  assert.equal(await viewer.getByRole('checkbox').count(), 0);
  await viewer.keyboard.press('/');
  await viewer.keyboard.type('e');
  await settled(viewer);
  assert.deepEqual((await choices(viewer)).filter((each) => /^(New|Run now|Pause:|Resume|Edit|Keys|Tenants)/.test(each)), []);
  viewer.check();
  await viewer.context().close();
});

test('a view is saved under a name, found in its list and the palette, and shared by its link', { timeout: 60000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules?q=team%3Dbilling&sort=next' });
  await listed(page, 2);
  await page.getByText('Views', { exact: true }).click();
  await page.getByRole('button', { name: 'Save this view…' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill(`Billing ${MARKUP}`.slice(0, 60));
  await page.keyboard.press('Enter');
  await page.getByText(/is saved\./).waitFor();
  await page.goto(`${platform.origin}/ui/default/schedules`);
  await page.getByText('Views (1)').click();
  await page.getByRole('link', { name: /^Billing/ }).click();
  await until(async () => (await names(page)).length === 2 && page.url().includes('sort=next'), 'the saved view');
  await page.goto(`${platform.origin}/ui/default`);
  await page.locator('#navigation').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('billing <img');
  await take(page, 'Billing');
  await until(async () => page.url().includes('team%3Dbilling') && (await names(page)).length === 2, 'the view by the palette');
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  // The link: also where the clipboard is refused.
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByText('Views (1)').click();
  await page.getByRole('button', { name: 'Copy its link' }).click();
  await page.getByText('The link is copied.').waitFor();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(link, /\/ui\/default\/schedules\?q=team%3Dbilling&sort=next$/);
  // Views of another tenant are others.
  await page.goto(`${platform.origin}/ui/bulk/schedules`);
  await page.getByText('Views', { exact: true }).waitFor();
  await page.goto(link);
  await page.getByText('Views (1)').click();
  await page.getByRole('button', { name: /^Delete the view/ }).click();
  await page.getByText('Views', { exact: true }).waitFor();
  page.check();
  await page.context().close();
});

test('views and recent choices work where the browser refuses storage', { timeout: 60000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/events', init: () => Object.defineProperty(globalThis, 'localStorage', { get: () => { throw new DOMException('refused', 'SecurityError'); } }) });
  await page.getByText('Views', { exact: true }).click();
  await page.getByRole('button', { name: 'Save this view…' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('What waits');
  await page.keyboard.press('Enter');
  await page.getByText('Views (1)').waitFor();
  await page.getByRole('link', { name: 'Policies' }).click();
  await page.keyboard.press('/');
  await page.keyboard.type('what waits');
  await take(page, 'What waits');
  await page.getByRole('heading', { name: 'Events', exact: true }).waitFor();
  await page.keyboard.press('/');
  await field(page).waitFor();
  assert.match((await choices(page))[0], /^What waits/);
  page.check();
  await page.context().close();
});

for (const [look, context] of [['light', { colorScheme: 'light' }], ['dark at 360 px, by touch', { colorScheme: 'dark', viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }]]) {
  test(`the palette and the tools of the list fit and are accessible: ${look}`, { timeout: 60000 }, async () => {
    const page = await openPage(browser, platform, { where: '/ui/default/schedules', context });
    await page.getByRole('link', { name: 'nightly-report' }).waitFor();
    const fits = async (what) => assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), `${what} is wider than the window`);
    await page.getByText('Views', { exact: true }).click();
    await fits('the list');
    assert.deepEqual(await axe(page), []);
    const button = page.getByRole('button', { name: 'Find anything' });
    if (context.hasTouch) await button.tap();
    else await button.click();
    await field(page).fill('report');
    await page.getByRole('option', { name: /^nightly-report/ }).waitFor();
    await settled(page);
    await fits('the palette');
    assert.deepEqual(await axe(page), []);
    const box = await page.locator('dialog.palette').boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= page.viewportSize().width && box.y + box.height <= page.viewportSize().height, JSON.stringify(box));
    const option = page.getByRole('option', { name: /^nightly-report/ });
    if (context.hasTouch) await option.tap();
    else await option.click();
    await page.getByRole('heading', { name: 'nightly-report', exact: true }).waitFor();
    page.check();
    await page.context().close();
  });
}

/** Opens an operation of /docs; its form. */
async function openOperation(page, id) {
  const details = page.locator(`details.operation#${id}`);
  await page.evaluate((hash) => { location.hash = hash; }, id);
  await details.locator('form.example').waitFor();
  return details.locator('form.example');
}

/** Gives each parameter of the path a value: the example, or what the page offers. */
async function fillPath(form) {
  for (const input of await form.locator('input[required][list]').all()) {
    if (await input.inputValue()) continue;
    await input.focus();
    const first = () => input.evaluate((each) => each.value || each.list.options[0]?.value);
    await until(first, `a value for ${await input.getAttribute('list')}`);
    await input.fill(await first());
  }
}

test('the commands of /docs work one after the other against a fresh platform', { timeout: 240000 }, async () => {
  const fresh = await Platform.start({ secure: false });
  const page = await openPage(browser, fresh, { where: '/docs', signIn: false });
  try {
    await page.getByText('No credentials are required.').waitFor();
    const tour = JSON.parse(readFileSync('common/rest/docs/api_examples.json', 'utf8')).map((each) => each.operation).filter(Boolean);
    const all = await page.locator('details.operation').evaluateAll((found) => found.map((each) => each.id));
    assert.deepEqual([...all].sort(), [...tour].sort(), 'each operation has an example');
    // These depend on more than the calls before them.
    const refused = { cancelOperation: 'OPERATION_ENDED', handOver: 'HANDOVER_REFUSED', deleteTenant: 'TENANT_NOT_SUSPENDED', createCell: 'the store of cells/1 does not answer' };
    const before = {
      listDeadLetters: async () => (await fresh.api('GET', '/tenants/default/deadLetters')).deadLetters.length > 0,
      listTargets: async () => (await fresh.api('GET', '/tenants/default/targets')).targets.length > 0,
      cancelOperation: async () => (await fresh.api('GET', '/tenants/default/operations')).operations.every((each) => each.state !== 'RUNNING'),
    };
    const wrong = [];
    for (const id of tour) {
      if (before[id]) await until(before[id], `what ${id} shows`);
      const form = await openOperation(page, id);
      await fillPath(form);
      const command = (await form.locator('pre.curl').innerText()).replaceAll('http://127.0.0.1:8080', `${receiver.url}/fail`);
      const output = execFileSync('sh', ['-c', `${command} --silent --max-time 20 --write-out '\n%{http_code}'`], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
      const status = output.split('\n').at(-1);
      const fine = refused[id] ? output.includes(refused[id]) : status === '200' && !output.includes('"error":{"code"');
      if (!fine) wrong.push(`${id}: ${command}\n${output}`);
    }
    assert.deepEqual(wrong, []);
    page.check();
  } finally {
    await page.context().close();
    await fresh.stop();
  }
});

test('a call is tried from /docs in the name of the one who is signed in', { timeout: 60000 }, async () => {
  const page = await openPage(browser, platform);
  await page.goto(`${platform.origin}/docs`);
  await page.getByText(/^Signed in as .* \(admin\)\./).waitFor();
  let form = await openOperation(page, 'getSchedule');
  // The example is hello; the platform has other schedules.
  await until(async () => (await form.getByLabel('schedule', { exact: true }).inputValue()) === 'batch', 'a schedule that exists');
  assert.match(await form.locator('pre.curl').innerText(), /\/v1\/tenants\/default\/schedules\/batch' \\\n {2}-H "Authorization: Bearer \$ESCAPEMENT_KEY"$/);
  await form.getByLabel('schedule', { exact: true }).fill('markup');
  await page.keyboard.press('Enter');
  await form.getByText(/^Status 200, \d+ ms/).waitFor();
  assert.ok((await form.getByRole('group', { name: 'The answer' }).innerText()).includes(MARKUP.slice(0, 18)));
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  // A change has the header that other sites cannot send.
  form = await openOperation(page, 'pauseSchedule');
  await form.getByLabel('schedule', { exact: true }).fill('nightly-report');
  const [request] = await Promise.all([page.waitForRequest(/:pause$/), form.getByRole('button', { name: 'Send', exact: true }).click()]);
  assert.equal(request.headers()['x-escapement-csrf'], '1');
  await form.getByText(/^Status 200/).waitFor();
  assert.equal((await platform.api('GET', '/tenants/default/schedules/nightly-report')).state, 'PAUSED');
  // A call that deletes something asks first; a wrong body is not sent.
  form = await openOperation(page, 'deleteSchedule');
  let deletes = 0;
  page.on('request', (each) => void (each.method() === 'DELETE' && deletes++));
  await form.getByLabel('schedule', { exact: true }).fill('nightly-report');
  await form.getByRole('button', { name: 'Send', exact: true }).click();
  const question = page.getByRole('dialog', { name: 'Send this call?' });
  await question.getByText('DELETE /v1/tenants/default/schedules/nightly-report').waitFor();
  assert.deepEqual(await axe(page), []);
  await question.getByRole('button', { name: 'Cancel' }).click();
  await question.waitFor({ state: 'detached' });
  assert.equal(deletes, 0);
  form = await openOperation(page, 'updateSchedule');
  await form.getByLabel('Body').fill('{"cron": ');
  await form.getByLabel('schedule', { exact: true }).fill('nightly-report');
  await form.getByRole('button', { name: 'Send', exact: true }).click();
  await form.getByText(/^The body is no JSON/).waitFor();
  await platform.api('POST', '/tenants/default/schedules/nightly-report:resume');
  await page.getByRole('link', { name: 'Back to the page' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  page.check();
  await page.context().close();
});

test('nobody who is not signed in sends calls from /docs; it fits 360 px', { timeout: 60000 }, async () => {
  const page = await openPage(browser, platform, { where: '/docs', signIn: false, context: { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } });
  const calls = [];
  page.on('request', (request) => void (request.url().includes('/v1/') && calls.push(request.url())));
  const form = await openOperation(page, 'getSchedule');
  await form.getByText('Sign in on the page').waitFor();
  assert.equal(await form.getByRole('button', { name: 'Send', exact: true }).count(), 0);
  await form.getByLabel('schedule', { exact: true }).fill('nightly-report');
  await page.keyboard.press('Enter');
  await openOperation(page, 'createSchedule');
  await page.locator('details#createSchedule').getByRole('button', { name: 'Copy the command' }).click();
  assert.deepEqual(calls, []);
  assert.deepEqual(await axe(page), []);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), 'wider than the window');
  page.check();
  await page.context().close();
});
