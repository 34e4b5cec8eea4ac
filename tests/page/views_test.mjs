// Every view: it shows what it should, without violations of accessibility rules, in light and dark, wide and at 360 px.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { axe, MARKUP, openBrowser, openPage, Platform, seed, startReceiver, until, yesterday } from './harness.mjs';

let platform, receiver, browser, runs;
before(async () => {
  receiver = await startReceiver();
  platform = await Platform.start();
  [runs, browser] = await Promise.all([seed(platform, receiver), openBrowser()]);
});
after(async () => {
  await browser?.close();
  await platform?.stop();
  receiver?.close();
});

/** [name, address below /ui/default, a text that it shows] */
const views = () => [
  ['overview', '', 'billing-sync'],
  ['load map', '?by=target', ', most at'],
  ['day', `day?day=${yesterday()}`, 'failed at'],
  ['schedules', 'schedules', 'until the disk is larger'],
  ['schedule', 'schedules/nightly-report', 'Report of the night'],
  ['run', runs.markup.split('/').slice(2).join('/'), '1 succeeded'],
  ['run event', `${runs.markup.split('/').slice(2).join('/')}/events/0`, 'Output'],
  ['events', 'events', 'later-reminder'],
  ['ended events', 'events?show=ended', 'lost-invoice'],
  ['event', 'events/lost-invoice', 'the disk is full'],
  ['dead letters', 'dead-letters', 'import-orders'],
  ['policies', 'policies', '2 held, 10 waiting'],
  ['policy', 'policies/gentle', '10 events'],
  ['override', 'policies/gentle/override', 'Otherwise 2'],
  ['calendars', 'calendars', 'Days off'],
  ['calendar', 'calendars/holidays', '2031-12-25'],
  ['edit calendar', 'calendars/holidays/edit', 'Dates of a file'],
  ['new calendar', 'new-calendar', 'Dates of a file'],
  ['notifications', 'notifications', 'E-mail to ada@example.org'],
  ['notification', 'notifications/on-call', 'All is well'],
  ['edit notification', 'notifications/on-call/edit', 'Which schedules'],
  ['new notification', 'new-notification', 'Also one-off events that fail'],
  ['targets', 'targets', receiver.url],
  ['operations', 'operations', 'There is no long work'],
  ['keys', 'keys', 'There is no key'],
  ['tenants', 'tenants', 'Quotas of default'],
  ['audit', 'audit', 'CreateSchedule'],
  ['new schedule', 'new-schedule', 'At 09:00, Monday to Friday'],
  ['edit schedule', 'schedules/nightly-report/edit', 'At 02:30, every day'],
  ['new event', 'new-event', 'Due (local time)'],
  ['new policy', 'new-policy', 'Events out at once'],
  ['no view', 'nonsense', 'This address has no view'],
];

const looks = [
  ['light', { colorScheme: 'light', viewport: { width: 1280, height: 860 } }],
  ['dark at 360 px', { colorScheme: 'dark', viewport: { width: 360, height: 740 } }],
];
for (const [look, context] of looks) {
  test(`every view shows its data and is accessible: ${look}`, { timeout: 200000 }, async () => {
    const page = await openPage(browser, platform, { context });
    const found = [];
    const shots = process.env.TEST_UNDECLARED_OUTPUTS_DIR ?? process.env.SHOTS;
    for (const [name, where, text] of views()) {
      await page.goto(`${platform.origin}/ui/default/${where}`);
      await page.locator('main').getByText(text).first().waitFor({ state: look === 'light' ? 'visible' : 'attached' });
      for (const violation of await axe(page)) found.push(`${name}: ${violation}`);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (beyond > 0) found.push(`${name} is ${beyond} px wider than the window`);
      if (shots) {
        mkdirSync(shots, { recursive: true });
        await page.screenshot({ path: `${shots}/${look.split(' ')[0]} ${name}.png` });
      }
    }
    assert.deepEqual(found, []);
    page.check();
    await page.context().close();
  });
}

test('the load of the next 24 hours goes over midnight by the clocks of the page', { timeout: 90000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/policies' });
  const eventsPerMinute = Array.from({ length: 1440 }, (_, i) => (i === 0 ? '1' : i === 33 ? '41000' : i === 40 ? '900' : '0'));
  const whole = { startTime: '2031-06-10T21:28:00Z', eventsPerMinute, eventCount: '41901', scheduleCount: '12' }; // 23:28 in Berlin
  const quiet = { key: 'gentle', eventsPerMinute: eventsPerMinute.map((n) => (n === '900' ? n : '0')), eventCount: '900', scheduleCount: '1' };
  const asked = [];
  await page.context().route(/:forecastLoad/, (route) => {
    const by = new URL(route.request().url()).searchParams.get('groupBy');
    asked.push(by);
    return route.fulfill({ json: by ? { ...whole, groups: [{ eventsPerMinute, eventCount: '41001', scheduleCount: '11' }, quiet] } : { ...whole, busyMinutes: [{ time: '2031-06-10T22:01:00Z', scheduleCount: '7', sources: [{ schedule: 'tenants/default/schedules/nightly', eventCount: '40000' }] }] } });
  });
  await page.goto(`${platform.origin}/ui/default`);
  const rows = page.locator('.map .lane:not(.scale)');
  await rows.first().waitFor();
  assert.equal(await rows.count(), 25);
  const text = async (row) => (await rows.nth(row).innerText()).replace(/\s+/g, ' ').trim();
  assert.equal(await text(0), '23:00 10 Jun 2031 1 event, most at 23:28 (1)');
  assert.equal(await text(1), '00:00 11 Jun 2031 41,900 events, most at 00:01 (41,000)');
  assert.equal(await text(2), '01:00 nothing');
  assert.equal(await text(24), '23:00 nothing');
  // Fields before the first minute and after the last one are left out.
  assert.deepEqual([await rows.nth(0).locator('rect').count(), await rows.nth(1).locator('rect').count(), await rows.nth(24).locator('rect').count()], [7, 12, 6]);
  assert.deepEqual(await rows.nth(1).locator('rect').evaluateAll((all) => all.slice(0, 3).map((each) => each.getAttribute('class'))), ['heat-5', 'heat-4', 'heat-0']);
  await page.getByText('00:01: nightly 40,000 and 6 more').waitFor();
  await page.getByLabel('Group by').selectOption('policy');
  await page.getByLabel('Policy', { exact: true }).selectOption({ label: 'gentle: 900' });
  await until(async () => (await text(1)) === '00:00 11 Jun 2031 900 events, most at 00:08 (900)', 'the group');
  assert.match(page.url(), /by=policy&group=gentle/);
  await page.getByLabel('Policy', { exact: true }).selectOption({ label: 'no policy: 41,001' });
  await until(async () => (await text(1)).includes('41,900'), 'events without a policy');
  assert.deepEqual([...new Set(asked)], [null, 'policy']);
  page.check();
  await page.context().close();
});

test('the form says what fires at the time that is typed', { timeout: 90000 }, async () => {
  const month = new Date(Date.now() + 40 * 86400000).getUTCMonth() + 1;
  const target = { http: { uri: `${receiver.url}/ok` } };
  await platform.schedule('many', { cron: `0 2 15 ${month} *`, eventCount: '41000', target });
  await platform.schedule('some', { cron: `0-6,8-59 2 15 ${month} *`, eventCount: '7', target });
  const page = await openPage(browser, platform, { where: '/ui/default/new-schedule' });
  await page.getByLabel('Time zone').fill('UTC');
  const [two, near] = ['00', '07'].map((minute) => new Date(Date.UTC(new Date(Date.now() + 40 * 86400000).getUTCFullYear(), month - 1, 15, 2, Number(minute))).toLocaleTimeString('en-GB', { timeZone: 'Europe/Berlin', hour: '2-digit', minute: '2-digit' }));
  await page.getByLabel('Cron expression').fill(`0 2 15 ${month} *`);
  // Other schedules fire every minute, too. The minute before has as few events as 02:07, and is nearer.
  await page.getByText(new RegExp(`^${two} has 41,\\d{3} events, \\d\\d:59 has \\d{1,2}\\.$`)).waitFor();
  await page.getByLabel('Cron expression').fill(`7 2 15 ${month} *`);
  await page.getByText(new RegExp(`^${near} has \\d{1,2} events so far\\.$`)).waitFor();
  page.check();
  await page.context().close();
});

test('events that wait for tokens are said to wait', { timeout: 90000 }, async () => {
  await platform.api('POST', '/tenants/default/policies?policyId=closed', { maxConcurrent: '1' });
  await platform.api('POST', '/tenants/default/policies/closed:pause', {});
  await platform.schedule('held-back', { cron: '0 0 1 1 *', eventCount: '300', policy: 'tenants/default/policies/closed', target: { http: { uri: `${receiver.url}/ok` } } });
  const run = (await platform.run('held-back')).name;
  const page = await openPage(browser, platform);
  const tile = page.locator('.tile').filter({ hasText: 'Waiting for tokens' });
  await tile.getByText('310', { exact: true }).waitFor(); // and ten of the policy "gentle"
  await tile.getByText(/the first was due/).waitFor();
  assert.equal(await page.getByText('nothing waits').count(), 0);
  await page.clock.setFixedTime(Date.now() + 300000);
  await page.goto(`${platform.origin}/ui/default/${run.split('/').slice(2).join('/')}`);
  await page.locator('main').getByText('300 events of it wait for tokens of the throttling policy closed').waitFor();
  page.check();
  await page.context().close();
});

test('a target of which every attempt fails does not work', { timeout: 120000 }, async () => {
  const other = await startReceiver();
  const page = await openPage(browser, platform, { where: '/ui/default/targets' });
  const row = () => page.getByRole('row').filter({ hasText: other.url });
  for (let i = 0; i < 3; i++) await platform.api('POST', '/tenants/default/events', { dueTime: new Date().toISOString(), retryPolicy: { maxAttempts: 1 }, target: { http: { uri: `${other.url}/fail` } } });
  await row().getByText('100 %').waitFor({ timeout: 60000 });
  await row().getByText('Fails', { exact: true }).waitFor();
  assert.equal(await row().getByText('Works').count(), 0);
  page.check();
  await page.context().close();
  other.close();
});

test('nothing is green where all fails, and each number leads to the list of what it counts', { timeout: 120000 }, async () => {
  await platform.schedule('always-fails', { cron: '0 0 1 1 *', eventCount: '2', calendar: 'holidays', retryPolicy: { maxAttempts: 1 }, target: { http: { uri: `${receiver.url}/fail` } } });
  const names = [];
  for (let i = 0; i < 3; i++) names.push((await platform.ended((await platform.run('always-fails')).name)).name);
  await until(async () => Number((await platform.api('GET', '/tenants/default/schedules/always-fails')).failedCount) === 6, 'six failed events');
  const page = await openPage(browser, platform);
  const main = page.locator('main');
  const open = async (where) => {
    await page.goto(`${platform.origin}/ui/default/${where}`);
    await main.locator('h1').waitFor();
  };
  const row = page.getByRole('row').filter({ hasText: 'always-fails' });
  await open('schedules?q=always-fails');
  await row.getByText('Always failed').waitFor();
  assert.equal(await main.locator('.good').count(), 0);
  await open('day?q=always-fails');
  await row.getByRole('link', { name: '3 failed' }).waitFor();
  assert.equal(await row.locator('.good').count(), 0);
  await row.getByRole('link', { name: '3 failed' }).click();
  await main.getByText('3 runs', { exact: true }).waitFor();
  assert.equal(await page.getByRole('table', { name: 'Runs of always-fails' }).locator('.good').count(), 0);
  await main.getByText('Always failed').waitFor();
  await main.getByRole('link', { name: '6 failed' }).click();
  await main.getByText('6 dead letters', { exact: true }).waitFor();
  await open(names[0].split('/').slice(2).join('/'));
  await main.locator('dd').getByRole('link', { name: '2 failed' }).first().click();
  await page.waitForURL('**?outcome=FAILED');
  await main.getByText('2 events', { exact: true }).last().waitFor();
  assert.equal(await main.locator('.good').count(), 0);
  await open('calendars/holidays');
  await main.locator('dd').getByRole('link', { name: '1', exact: true }).click();
  await main.getByText('1 schedule', { exact: true }).waitFor();
  await open('policies');
  await page.getByRole('link', { name: '2 held' }).click();
  await main.getByText('2 holders', { exact: true }).waitFor();
  await open('tenants');
  const { scheduleCount } = await platform.api('GET', '/tenants/default:usage');
  await main.getByRole('link', { name: `${scheduleCount} now` }).first().click();
  await main.getByText(`${scheduleCount} schedules`, { exact: true }).waitFor();
  await open('');
  for (const [tile, noun] of [['Dead letters of a day', 'dead letters'], ['Due within an hour', 'schedule']]) {
    await open('');
    const figure = page.getByRole('link', { name: new RegExp(`^${tile}: \\d`) });
    const number = await figure.innerText();
    await figure.click();
    await main.getByText(new RegExp(`^${number} ${noun}`)).waitFor();
  }
  page.check();
  await page.context().close();
});

// For each zone a change of its clocks: a second before it, at it, and a second after it.
const CHANGES = {
  'Pacific/Auckland': ['2031-04-05T14:00:00Z', ['6 Apr 2031, 02:59:59 GMT+13', '6 Apr 2031, 02:00:00 GMT+12', '6 Apr 2031, 02:00:01 GMT+12'], '2031-04-06T00:00', '2031-04-05T11:00:00Z'],
  'Europe/Berlin': ['2031-03-30T01:00:00Z', ['30 Mar 2031, 01:59:59', '30 Mar 2031, 03:00:00', '30 Mar 2031, 03:00:01'], '2031-03-30T02:30', '2031-03-30T01:30:00Z'],
  'America/New_York': ['2031-11-02T06:00:00Z', ['2 Nov 2031, 01:59:59 GMT-4', '2 Nov 2031, 01:00:00 GMT-5', '2 Nov 2031, 01:00:01 GMT-5'], '2031-11-02T01:30', '2031-11-02T05:30:00Z'],
  'America/Santiago': ['2031-09-07T04:00:00Z', ['6 Sept 2031, 23:59:59', '7 Sept 2031, 01:00:00', '7 Sept 2031, 01:00:01'], '2031-09-07T00:00', '2031-09-07T04:00:00Z'],
};
for (const [timezoneId, [change, texts, typed, due]] of Object.entries(CHANGES)) {
  test(`times are those of clocks in ${timezoneId}, also where they change`, { timeout: 60000 }, async () => {
    const id = timezoneId.toLowerCase().replace(/\W/g, '-');
    for (const seconds of [-1, 0, 1]) await platform.api('POST', `/tenants/default/events?eventId=${id}${seconds + 1}`, { dueTime: new Date(Date.parse(change) + seconds * 1000).toISOString(), target: { http: { uri: `${receiver.url}/ok` } } });
    const page = await openPage(browser, platform, { context: { timezoneId }, where: `/ui/default/events?q=${id}` });
    await page.locator('main').getByText('3 events', { exact: true }).waitFor();
    assert.deepEqual(await page.locator('tbody time').evaluateAll((all) => all.map((each) => each.title)), texts);
    await page.goto(`${platform.origin}/ui/default/new-event`);
    await page.getByLabel('Due (local time)').fill(typed);
    await page.getByLabel('Id', { exact: true }).fill(`${id}-typed`);
    await page.getByLabel('URL').fill(`${receiver.url}/ok`);
    await page.getByRole('button', { name: 'Create event' }).click();
    await page.getByRole('heading', { name: `Event ${id}-typed` }).waitFor();
    assert.equal((await platform.api('GET', `/tenants/default/events/${id}-typed`)).dueTime, due);
    page.check();
    await page.context().close();
  });
}

test('text of others is shown as text everywhere', { timeout: 60000 }, async () => {
  await platform.api('PATCH', '/tenants/default?updateMask=displayName', { displayName: MARKUP });
  const page = await openPage(browser, platform);
  const event = `schedules/markup/runs/${runs.markup.split('/').pop()}/events/0`;
  for (const where of ['schedules', 'schedules/markup', event, 'events/lost-invoice', 'events?show=ended', 'dead-letters', 'targets', 'tenants', 'schedules/markup/edit']) {
    await page.goto(`${platform.origin}/ui/default/${where}`);
    if (where === 'schedules/markup/edit') await until(async () => (await page.getByLabel('Payload', { exact: true }).inputValue()).includes('<script>'), 'the payload is shown');
    else await until(async () => /<script>|onerror/.test(await page.locator('main').innerText()), `${where} shows the text`);
    assert.equal(await page.evaluate(() => window.hacked), undefined, where);
    assert.equal(await page.locator('main img, main script, main b, main i').count(), 0, where);
  }
  page.check();
  await page.context().close();
});

test('colours and times can be chosen, and stay', async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules/nightly-report' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByLabel('Colours').selectOption('dark');
  await until(async () => (await ground()) !== light, 'dark');
  await page.reload();
  assert.notEqual(await ground(), light);
  await page.getByLabel('Times').selectOption('utc');
  await page.reload();
  assert.equal(await page.getByLabel('Times').inputValue(), 'utc');
  page.check();
  await page.context().close();
});

test('a target stays in trouble while nothing was sent to it after it failed', { timeout: 60000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/keys' });
  const quiet = (id) => ({ name: `tenants/default/targets/${id}`, transport: 'http', endpoint: `https://${id}.example`, state: 'CLOSED', lastError: 'HTTP 503', lastErrorTime: new Date(Date.now() - 300000).toISOString() });
  await page.context().route(/\/targets\?/, (route) => route.fulfill({ json: { targets: [quiet('fell-silent'), quiet('recovered'), { name: 'tenants/default/targets/never', transport: 'http', endpoint: 'https://never.example', state: 'CLOSED' }] } }));
  let calls = 0;
  await page.context().route(/\/statistics\?.*targets/, (route) => {
    calls++;
    const step = (minutes, attemptCount, errorCount) => ({ startTime: new Date(Date.now() - minutes * 60000).toISOString(), attemptCount, errorCount });
    const silent = decodeURIComponent(route.request().url()).includes('fell-silent');
    return route.fulfill({ json: { step: '60s', statistics: [step(6, '5', '0'), step(5, '3', '3'), silent ? step(4) : step(4, '1', '0'), step(3)] } });
  });
  await page.goto(`${platform.origin}/ui/default`);
  const table = page.getByRole('table', { name: 'Targets in trouble' });
  await table.getByText('https://fell-silent.example').waitFor();
  await table.getByText('Failed last').waitFor();
  assert.equal(await table.locator('tbody tr').count(), 1);
  // Columns that no row has are left out.
  assert.deepEqual(await table.getByRole('columnheader').allTextContents(), ['Endpoint', 'State', 'Under way', 'Per second', 'Failures', 'Last error']);
  // The answer is known until something is sent again.
  await page.waitForResponse(/\/targets\?/);
  assert.equal(calls, 2);
  page.check();
  await page.context().close();
});

test('an event at a target that is down says so', { timeout: 90000 }, async () => {
  const event = { target: { http: { uri: 'http://127.0.0.1:9/down' } } }; // nothing listens there
  await platform.api('POST', '/tenants/default/events:batchCreate', { requests: Array(20).fill({ event }) });
  await until(async () => {
    await platform.api('POST', '/tenants/default/events', event); // the first twenty open the circuit breaker
    const { events } = await platform.api('GET', '/tenants/default/events?filter=state%3DPENDING&pageSize=1000');
    return events?.some((each) => each.status === 'TARGET_DOWN');
  }, 'an event that waits for its target');
  // Probes take the events that were due first.
  await platform.api('POST', '/tenants/default/events:batchCreate', { requests: Array(20).fill({ event }) });
  await platform.api('POST', '/tenants/default/events?eventId=held', event);
  const page = await openPage(browser, platform, { where: '/ui/default/events/held' });
  await page.locator('main').getByText('Waits, target is down').waitFor();
  await page.locator('main').getByText(/^target is down: /).waitFor();
  await page.locator('main').getByText('Next try').waitFor();
  await page.locator('main').getByText('Why it waits').waitFor();
  page.check();
  await page.context().close();
});

test('a run with a window says how it keeps to it, and has a report', { timeout: 90000 }, async () => {
  const http = (where) => ({ http: { uri: `${receiver.url}${where}` } });
  await platform.api('POST', '/tenants/default/policies?policyId=windowed', { maxConcurrent: '2' });
  await platform.schedule('in-window', { cron: '0 0 1 1 *', eventCount: '5', policy: 'windowed', completion: 'ON_DELIVERY', window: { duration: '3600s' }, target: http('/fail'), retryPolicy: { maxAttempts: 1 }, onComplete: http('/told'), onCompleteWhen: 'ON_FAILURE' });
  const run = await platform.ended((await platform.run('in-window')).name);
  const page = await openPage(browser, platform, { where: `/ui/default/${run.name.split('/').slice(2).join('/')}` });
  const main = page.locator('main');
  await main.getByText(/^On track, closes/).waitFor();
  const report = page.locator('section').filter({ has: page.getByRole('heading', { name: 'Report' }) });
  await report.getByText('5 events Redrive').waitFor();
  await report.getByText('0 events', { exact: true }).waitFor();
  assert.equal(await report.getByRole('listitem').count(), 5);
  assert.deepEqual(await axe(page), []);
  await report.getByRole('button', { name: 'Redrive' }).click();
  await page.getByRole('dialog').getByText('Redrive 5 failed events?').waitFor();
  await page.keyboard.press('Escape');
  await report.getByRole('link').first().click();
  await main.getByText('the disk is full').first().waitFor();
  await page.goto(`${platform.origin}/ui/default/schedules/in-window`);
  await main.getByText(/^On track, [\d.]+\/s, closes in /).waitFor();
  await main.getByText(/^after failures, told to/).waitFor();
  const told = await until(() => receiver.got.find((each) => each.path === '/told'), 'on_complete is told');
  const payload = JSON.parse(told.body);
  assert.deepEqual([payload.failed, payload.never_started, payload.tokens, payload.window, payload.slowest.length], [5, 0, 5, 'ON_TRACK', 5]);
  // The form: to whom, and when.
  await page.goto(`${platform.origin}/ui/default/schedules/in-window/edit`);
  await page.locator('summary').getByText('More', { exact: true }).click();
  assert.equal(await page.getByLabel('Report', { exact: true }).inputValue(), 'ON_FAILURE');
  await page.getByLabel('Report', { exact: true }).selectOption('ALWAYS');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: 'in-window', exact: true }).waitFor();
  assert.equal((await platform.api('GET', '/tenants/default/schedules/in-window')).onCompleteWhen, 'ALWAYS');
  await page.goto(`${platform.origin}/ui/default/schedules/in-window/edit`);
  await page.locator('summary').getByText('More', { exact: true }).click();
  await page.getByLabel('Report the end of each run to').fill('');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: 'in-window', exact: true }).waitFor();
  assert.equal((await platform.api('GET', '/tenants/default/schedules/in-window')).onComplete, undefined);
  page.check();
  await page.context().close();
});
