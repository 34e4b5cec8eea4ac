// Charts of statistics, bars of runs, and the map of the load to come: they show what happened, in every zone, width and scheme.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, openBrowser, openPage, Platform, startReceiver, until } from './harness.mjs';

// Processes write their counts every ten seconds, and the page reads them as often.
const SOON = { timeout: 60000 };
const EVENTS = 'Events of each minute';
const policies = '/tenants/default/policies';
let platform, receiver, browser;
before(async () => {
  receiver = await startReceiver();
  platform = await Platform.start();
  browser = await openBrowser();
  await platform.api('POST', '/tenants?tenantId=all-fails', {});
  await platform.api('POST', `${policies}?policyId=narrow`, { maxConcurrent: '2' });
  await Promise.all([
    send('default', '/ok', 7), send('default', '/fail', 3), send('all-fails', '/fail', 5),
    send('default', '/ok', 12, { policy: 'narrow' }), // tokens come back from the consumer: never
  ]);
});
after(async () => {
  await browser?.close();
  await platform?.stop();
  receiver?.close();
});

const target = (where) => ({ http: { uri: `${receiver.url}${where}` } });
const send = (tenant, where, n, more = {}) => platform.api('POST', `/tenants/${tenant}/events:batchCreate`, {
  requests: Array.from({ length: n }, () => ({ event: { retryPolicy: { maxAttempts: 1 }, target: target(where), ...more } })),
});
const open = async (page, where) => {
  await page.goto(`${platform.origin}/ui/${where}`);
  await page.locator('main h1').waitFor();
};
const chart = (page, title) => page.locator('.picture').filter({ has: page.getByRole('heading', { name: title, exact: true }) });
/** The number beside a name of the legend. */
const total = (page, title, name) => chart(page, title).locator('.legend li').filter({ hasText: name }).locator('strong');
const shows = (page, title, name, number) => total(page, title, name).getByText(number, { exact: true }).waitFor(SOON);
/** The rows of a chart's table, the newest first: [{Time: "14:05", Delivered: "7", …}] */
async function values(page, title) {
  const table = chart(page, title).getByRole('table');
  if (!(await table.count())) await chart(page, title).locator('summary').click();
  return table.evaluate((element) => {
    const [head, ...rows] = [...element.rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    return rows.map((row) => Object.fromEntries(row.map((text, i) => [head[i], text])));
  });
}
const sum = (rows, column) => rows.reduce((all, row) => all + Number(row[column].replace(/[,–]/g, '') || 0), 0);
/** Pixels of a chart whose colour is that of a variable of the style sheet. */
const pixels = (page, title, variable) => chart(page, title).locator('canvas').evaluate((canvas, variable_) => {
  const [, ...hex] = /^#(..)(..)(..)$/.exec(getComputedStyle(document.documentElement).getPropertyValue(variable_).trim());
  const colour = hex.map((each) => parseInt(each, 16));
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  // The edges of a line are partly transparent.
  for (let i = 0; i < data.length; i += 4) found += data[i + 3] > 100 && colour.every((each, at) => Math.abs(data[i + at] - each) <= 3);
  return found;
}, variable);

test('the overview shows what was due, delivered and failed', { timeout: 200000 }, async () => {
  const page = await openPage(browser, platform);
  await shows(page, EVENTS, 'Delivered', '7');
  await shows(page, EVENTS, 'Failed', '3');
  // Events of the policy with a token were sent and have not ended.
  await until(async () => Number(await total(page, EVENTS, 'Due').innerText()) >= 10, 'ten were due');
  const rows = await values(page, EVENTS);
  assert.equal(rows.length, 60);
  assert.deepEqual([sum(rows, 'Delivered'), sum(rows, 'Failed')], [7, 3]);
  // In the minutes in which they ended.
  const ended = (await platform.api('GET', '/tenants/default/events?filter=state%3DENDED&pageSize=100')).events;
  const minutes = new Set(ended.map((event) => new Date(event.completeTime).toLocaleTimeString('en-GB', { timeZone: 'Europe/Berlin', hour: '2-digit', minute: '2-digit' })));
  assert.deepEqual(rows.filter((row) => row.Delivered !== '0' || row.Failed !== '0').map((row) => row.Time.slice(-5)).sort(), [...minutes].sort());
  // The number of those that failed leads to them.
  await total(page, EVENTS, 'Failed').getByRole('link').click();
  await page.getByRole('heading', { name: 'Dead letters' }).waitFor();
  await page.getByText('3 dead letters', { exact: true }).waitFor();
  page.check();
  await page.context().close();
});

test('the time is chosen in the address, and its steps have the same sums', { timeout: 200000 }, async () => {
  const page = await openPage(browser, platform);
  for (const [choice, minutes] of [['6 h', 5], ['24 h', 15], ['48 h', 30]]) {
    await page.getByRole('button', { name: choice, exact: true }).click();
    await page.waitForURL(`**/default?range=${choice.replace(' ', '')}`);
    const title = `Events of each ${minutes} minutes`;
    await shows(page, title, 'Delivered', '7');
    const rows = await values(page, title);
    assert.equal(rows.length, { 5: 72, 15: 96, 30: 96 }[minutes]);
    assert.deepEqual([sum(rows, 'Delivered'), sum(rows, 'Failed')], [7, 3]);
    for (const row of rows) assert.match(row.Time, /^(\d+ \w+ \d+, )?\d\d:\d\d–\d\d:\d\d$/);
  }
  await page.reload();
  await page.getByRole('heading', { name: 'The last 48 h' }).waitFor();
  assert.equal(await page.getByRole('button', { name: '48 h', exact: true }).getAttribute('aria-pressed'), 'true');
  page.check();
  await page.context().close();
});

test('what waits, and for whom, is drawn and leads to the policy', { timeout: 200000 }, async () => {
  const page = await openPage(browser, platform);
  const backlog = 'Events that waited for tokens';
  await until(async () => {
    await chart(page, backlog).locator('canvas').waitFor(SOON);
    const rows = await values(page, backlog);
    return Math.max(...rows.map((row) => Number(row.Waiting.replace('–', '0')))) === 10;
  }, 'ten wait', 60);
  const row = page.getByRole('table', { name: 'What waits for whom' }).getByRole('row').filter({ hasText: 'narrow' });
  await row.getByText('one-off events 10').waitFor();
  await row.getByRole('link', { name: '10', exact: true }).click();
  await page.getByRole('heading', { name: 'narrow', exact: true }).waitFor();
  await until(async () => {
    await chart(page, 'Tokens held').locator('canvas').waitFor(SOON);
    const held = await values(page, 'Tokens held');
    const waited = await values(page, 'Events that waited');
    // A minute that has samples has the limit; a minute without is a gap.
    return held.some((each) => each.Held === '2' && each.Limit === '2') && held.some((each) => each.Held === '0' && each.Limit === '–') && waited.some((each) => each.Waiting === '10');
  }, 'two held of two, ten wait', 60);
  assert.ok(await pixels(page, 'Tokens held', '--busy-mark') > 20);
  page.check();
  await page.context().close();
});

test('a target has its attempts, errors and lateness, from its row', { timeout: 200000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/targets' });
  await page.getByRole('link', { name: receiver.url }).click();
  await page.getByRole('heading', { name: receiver.url, exact: true }).waitFor();
  const title = 'Attempts of each minute';
  await shows(page, title, 'Accepted', '9'); // seven, and two that hold tokens
  await shows(page, title, 'Failed', '3');
  await chart(page, title).getByText('25 % failed').waitFor();
  assert.deepEqual((await values(page, title)).reduce(([ok, bad], row) => [ok + Number(row.Accepted), bad + Number(row.Failed)], [0, 0]), [9, 3]);
  const late = await values(page, 'From due time to first attempt');
  assert.ok(late.some((row) => / (m?s|min)$/.test(row.Lateness)) && late.some((row) => row.Lateness === '–'), JSON.stringify(late));
  page.check();
  const [{ name }] = (await platform.api('GET', '/tenants/default/targets')).targets;
  await open(page, `default/targets/${name.split('/').pop().replace(/.$/, (digit) => (digit === '0' ? '1' : '0'))}`);
  await page.getByText('No event went to it in the last minutes.').waitFor();
  page.check();
  await page.context().close();
});

test('nothing is green where all fails', { timeout: 200000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/all-fails' });
  await shows(page, EVENTS, 'Failed', '5');
  await shows(page, EVENTS, 'Delivered', '0');
  await until(async () => (await pixels(page, EVENTS, '--bad-mark')) > 20, 'red');
  assert.equal(await pixels(page, EVENTS, '--good-mark'), 0);
  await page.goto(`${platform.origin}/ui/default`);
  await shows(page, EVENTS, 'Delivered', '7');
  await until(async () => (await pixels(page, EVENTS, '--good-mark')) > 20, 'green');
  page.check();
  await page.context().close();
});

test('pointer and keys show the values of a minute', { timeout: 200000 }, async () => {
  const page = await openPage(browser, platform);
  await shows(page, EVENTS, 'Delivered', '7');
  await chart(page, EVENTS).locator('canvas').waitFor();
  const slider = chart(page, EVENTS).getByRole('slider');
  const tip = chart(page, EVENTS).locator('.picture-tip');
  await slider.focus();
  await page.keyboard.press('End');
  const rows = await values(page, EVENTS);
  // From the newest back to the minute in which most was delivered.
  const at = rows.findIndex((row) => Number(row.Delivered) === Math.max(...rows.map((each) => Number(each.Delivered))));
  await slider.focus();
  await page.keyboard.press('End');
  for (let i = 0; i < at; i++) await page.keyboard.press('ArrowLeft');
  await until(async () => (await slider.getAttribute('aria-valuetext')).includes(`Delivered ${rows[at].Delivered}, Failed ${rows[at].Failed}`), 'the keys say it');
  await tip.getByText(`Delivered ${rows[at].Delivered}`, { exact: true }).waitFor();
  await page.keyboard.press('Home');
  await tip.getByText('Delivered 0', { exact: true }).waitFor();
  await slider.blur();
  await tip.waitFor({ state: 'detached' });
  const over = await chart(page, EVENTS).locator('.u-over').boundingBox();
  await page.mouse.move(over.x + over.width * (1 - (at + 0.5) / 60), over.y + over.height / 2);
  await tip.getByText(`Delivered ${rows[at].Delivered}`, { exact: true }).waitFor();
  page.check();
  await page.context().close();
});

test('charts follow the colours, the width and the zone', { timeout: 200000 }, async () => {
  const page = await openPage(browser, platform);
  await shows(page, EVENTS, 'Delivered', '7');
  const canvas = chart(page, EVENTS).locator('canvas');
  await canvas.waitFor();
  const width = async () => (await canvas.boundingBox()).width;
  const wide = await width();
  await page.context().route(/\/v1\/|\/metrics|\/ui\/platform/, () => {}); // no answer, so nothing else draws again
  // The line of what was due has the colour of texts.
  const drawn = (scheme) => until(async () => (await pixels(page, EVENTS, '--text')) > 20, `${scheme} lines`);
  for (const colorScheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme });
    await drawn(`the system's ${colorScheme}`);
  }
  await page.getByLabel('Colours').selectOption('dark');
  await drawn('dark');
  await page.setViewportSize({ width: 768, height: 800 });
  await until(async () => (await width()) !== wide, 'another width');
  const box = await chart(page, EVENTS).locator('.picture-plot').boundingBox();
  await until(async () => Math.abs((await width()) - box.width) < 1, 'the width of its box');
  const times = async () => (await values(page, EVENTS)).map((row) => row.Time.slice(-5));
  const local = await times();
  await page.getByLabel('Times').selectOption('utc');
  await until(async () => (await times())[0] !== local[0], 'UTC');
  page.check();
  await page.context().close();
});

for (const zone of ['Pacific/Auckland', 'America/Santiago', 'Asia/Kathmandu']) {
  test(`minutes are those of the clocks of ${zone}`, { timeout: 200000 }, async () => {
    const page = await openPage(browser, platform, { context: { timezoneId: zone } });
    await shows(page, EVENTS, 'Delivered', '7');
    const rows = await values(page, EVENTS);
    const ended = (await platform.api('GET', '/tenants/default/events?filter=outcome%3DSUCCEEDED&pageSize=100')).events;
    const clocks = new Set(ended.map((event) => new Date(event.completeTime).toLocaleTimeString('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit' })));
    assert.deepEqual(rows.filter((row) => row.Delivered !== '0').map((row) => row.Time.slice(-5)).sort(), [...clocks].sort());
    page.check();
    await page.context().close();
  });
}

test('an hour that clocks repeat stands twice, and what the server leaves out is zero or a gap', { timeout: 90000 }, async () => {
  // In Berlin clocks go back at 01:00 UTC on 26 October 2031.
  const now = Date.parse('2031-10-26T03:00:00Z');
  const page = await openPage(browser, platform, { where: '/ui/default/policies' });
  await page.context().route(/\/statistics\?/, (route) => {
    const begin = Date.parse(new URL(route.request().url()).searchParams.get('startTime'));
    const statistics = Array.from({ length: 96 }, (_, i) => ({ startTime: new Date(begin + i * 1800000).toISOString(), latenessMax: '0s' }));
    Object.assign(statistics[95], { dueCount: '4', succeededCount: '1', failedCount: '2', otherCount: '1', lateCount: '1', latenessMax: '61s' });
    return route.fulfill({ json: { statistics, step: '1800s' } });
  });
  await page.clock.setFixedTime(now);
  await page.goto(`${platform.origin}/ui/default?range=48h`);
  const rows = await values(page, 'Events of each 30 minutes');
  assert.equal(rows.length, 96);
  assert.deepEqual(rows[0], { Time: '26 Oct 2031, 04:00–04:30', Delivered: '1', Failed: '2', 'Ended otherwise': '1', Due: '4', Late: '1' });
  assert.deepEqual(rows.slice(1, 8).map((row) => row.Time.slice(-11)), ['03:30–04:00', '03:00–03:30', '02:30–03:00', '02:00–02:30', '02:30–02:00', '02:00–02:30', '01:30–02:00']);
  assert.deepEqual([...new Set(rows.slice(1).flatMap((row) => Object.values(row).slice(1)))], ['0']);
  await page.getByText('The most was 1 min 1 s, at 04:00.').waitFor();
  page.check();
  await page.context().close();
});

test('without statistics the pictures are left out', { timeout: 90000 }, async () => {
  for (const status of [404, 501]) {
    const page = await openPage(browser, platform, { where: '/ui/default/keys' });
    let asked = 0;
    await page.context().route(/\/statistics\?/, (route) => ((asked += 1), route.fulfill({ status, json: { error: { message: 'no such path' } } })));
    for (const where of ['default', 'default/policies/narrow']) {
      asked = 0;
      await open(page, where);
      await until(() => asked > 0, 'statistics are asked for');
      await page.getByText(/^2 of 2$|^Due within an hour$/).first().waitFor();
      await until(async () => (await page.locator('.picture, .picture-wait, .ranges').count()) === 0, 'no picture');
      assert.equal(await page.getByText('no such path').count(), 0);
    }
    page.check();
    await page.context().close();
  }
});

test('the last runs of a schedule are bars that lead to them', { timeout: 200000 }, async () => {
  await platform.schedule('bars', { cron: '0 0 1 1 *', retryPolicy: { maxAttempts: 1 }, target: target('/repairable') });
  const run = async (broken) => {
    receiver.state.broken = broken;
    return platform.ended((await platform.run('bars')).name);
  };
  const names = [];
  for (const broken of [false, true, true, false]) names.push((await run(broken)).name);
  const page = await openPage(browser, platform, { where: '/ui/default/schedules' });
  const list = page.getByRole('list', { name: /^Runs of bars\. Of the last 4 runs 2 completed, 2 failed$/ });
  await list.waitFor();
  const bars = list.getByRole('link');
  assert.deepEqual(await bars.locator('span').evaluateAll((all) => all.map((each) => each.className)), ['good', 'bad', 'bad', 'good']);
  for (const [i, end] of ['completed', 'failed', 'failed', 'completed'].entries()) assert.match(await bars.nth(i).getAttribute('aria-label'), new RegExp(`^\\d+ \\w+ \\d+, \\d\\d:\\d\\d:\\d\\d: ${end}, took .+ \\(1 (succeeded|failed)\\)$`));
  // One stop of the Tab key; the arrow keys go on.
  assert.equal(await list.locator('a[tabindex="0"]').count(), 1);
  await bars.nth(3).focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/ui/default/schedules/bars/runs/${names[1].split('/').pop()}`);
  await open(page, 'default/schedules/bars');
  await page.getByText('Of the last 4 runs 2 completed, 2 failed.').waitFor();
  // A run that has begun since is read.
  names.push((await run(true)).name);
  await page.getByText('Of the last 5 runs 2 completed, 3 failed.').waitFor({ timeout: 30000 });
  page.check();
  await page.context().close();
});

test('bars are read for visible rows only, few at once, and once', { timeout: 200000 }, async () => {
  await platform.api('POST', '/tenants?tenantId=many', {});
  for (let i = 0; i < 120; i++) await platform.schedule(`s-${String(i).padStart(3, '0')}`, { cron: '0 0 1 1 *', target: target('/ok') }, 'many');
  const page = await openPage(browser, platform, { where: '/ui/many/policies' });
  const asked = [];
  const held = []; // calls whose answers are held back
  let hold = true;
  await page.context().route(/\/runs\?/, async (route) => {
    asked.push(decodeURIComponent(new URL(route.request().url()).pathname).split('/')[5]);
    if (hold) await new Promise((answer) => void held.push(answer));
    await route.continue();
  });
  await page.getByRole('link', { name: 'Schedules', exact: true }).click();
  /** Rows that are in the window: wholly, or at least so many pixels of them. */
  const visible = (least) => page.evaluate((least_) => [...document.querySelectorAll('tbody tr:not(.gap)')].filter((row) => {
    const { top, bottom, height } = row.getBoundingClientRect();
    return Math.min(bottom, innerHeight) - Math.max(top, 0) >= Math.min(least_, height);
  }).map((row) => row.querySelector('.cell').textContent), least);
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  await page.getByText('s-000').waitFor();
  await until(() => held.length === 4, 'four calls');
  await page.evaluate(() => new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted))));
  assert.equal(asked.length, 4);
  hold = false;
  held.forEach((answer) => answer());
  const first = await visible(44);
  await until(() => first.every((id) => asked.includes(id)), 'the visible rows are read');
  assert.ok(first.length > 5 && first.length < 25, `${first.length} rows`);
  const partly = await visible(0);
  assert.deepEqual([...new Set(asked)].filter((id) => !partly.includes(id)), []);
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await until(async () => (await visible(44)).includes('s-119') && (await visible(44)).every((id) => asked.includes(id)), 'the last rows are read');
  assert.ok(!asked.includes('s-050'), 'rows that were passed are not read');
  // Back at the top, nothing has changed: what was read stands.
  await page.evaluate(() => scrollTo(0, 0));
  await page.locator('tbody').getByText('s-000').waitFor();
  await page.locator('tbody tr').filter({ hasText: 's-000' }).getByText('–').last().waitFor();
  assert.equal(asked.filter((id) => id === 's-000').length, 1);
  page.check();
  await page.context().close();
});

test('the load to come is read by keyboard, hour by hour and group by group', { timeout: 200000 }, async () => {
  await platform.api('POST', '/tenants?tenantId=load', {});
  await platform.api('POST', '/tenants/load/policies?policyId=gentle', { maxConcurrent: '2' });
  await platform.schedule('hourly', { cron: '7 * * * *', eventCount: '30', target: target('/ok') }, 'load');
  await platform.schedule('half', { cron: '9,39 * * * *', eventCount: '4', policy: 'gentle', target: { http: { uri: 'http://127.0.0.1:9/' } } }, 'load');
  const page = await openPage(browser, platform, { where: '/ui/load' });
  const fields = page.getByRole('grid').getByRole('gridcell', { name: /^\d\d:\d\d–\d\d:\d\d: / });
  await fields.first().waitFor();
  const labels = await fields.evaluateAll((all) => all.map((each) => each.getAttribute('aria-label')));
  assert.ok(labels.length === 288 || labels.length === 289, `${labels.length} fields`);
  const number = (text) => Number(/: ([\d,]+) event/.exec(text)[1].replace(',', ''));
  // 24 hours, whatever the minute of now: 30 and twice 4 events in each.
  assert.equal(labels.reduce((all, text) => all + number(text), 0), 24 * 38);
  // Between the two minutes, the first and the last field have one of them each.
  assert.ok(labels.filter((text) => /:05–\d\d:10: 34 events$/.test(text)).length >= 23);
  // It goes over midnight of the page's clocks.
  assert.equal(labels.filter((text) => text.startsWith('00:05–00:10')).length, 1);
  assert.ok((await page.locator('.map .lane-name .muted').count()) >= 1);
  const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label'));
  assert.equal(await page.getByRole('grid').locator('[tabindex="0"]').count(), 1);
  await page.getByRole('grid').locator('[tabindex="0"]').focus();
  assert.equal(await focused(), labels[0]);
  await page.keyboard.press('ArrowRight');
  assert.equal(await focused(), labels[1]);
  await page.keyboard.press('ArrowDown');
  assert.equal(await focused(), labels[13]);
  await page.keyboard.press('ArrowUp');
  await page.locator('.map-point').getByText(labels[1]).waitFor();
  assert.equal(await focused(), labels[1]);
  // Its busiest minute, and a quieter one near it.
  const grid = page.getByRole('grid');
  await grid.getByRole('gridcell', { name: /:05–\d\d:10: 34 events$/ }).nth(3).click();
  await grid.getByText(/^\d\d:07: 30 events of 1 schedule\.$/).waitFor();
  await grid.getByText(/^\d\d:07 has 30 events, \d\d:\d\d has 0\.$/).waitFor();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('Enter');
  await grid.getByText(/^\d\d:00–\d\d:05: 0 events$/).waitFor();
  for (const [by, groups] of [['Policy', { gentle: 192, 'no policy': 720 }], ['Target', { [receiver.url]: 720, 'http://127.0.0.1:9': 192 }]]) {
    await page.getByLabel('Group by').selectOption(by);
    const table = page.getByRole('table', { name: `Events of the next 24 hours, by ${by.toLowerCase()}` });
    for (const [name, events] of Object.entries(groups)) await table.getByRole('row').filter({ hasText: name }).getByText(`${events} events, most at`).waitFor();
    assert.equal(await table.getByRole('row').count(), 3);
    await table.getByRole('link', { name: Object.keys(groups)[0] }).click();
    await until(async () => (await fields.count()) > 200, 'the hours of the group');
    const own = await fields.evaluateAll((all) => all.map((each) => each.getAttribute('aria-label')));
    assert.equal(own.reduce((all, text) => all + number(text), 0), Object.values(groups)[0]);
  }
  page.check();
  await page.context().close();
});

test('a field of a group has only what that group fires, and its own quiet minutes', { timeout: 90000 }, async () => {
  await platform.api('POST', '/tenants?tenantId=groups', {});
  await platform.api('POST', '/tenants/groups/policies?policyId=gentle', { maxConcurrent: '2' });
  const other = { http: { uri: 'http://127.0.0.1:9/orders' } };
  await platform.schedule('plain', { cron: '7,8 * * * *', eventCount: '30', target: other }, 'groups');
  await platform.schedule('soft', { cron: '7 * * * *', eventCount: '4', policy: 'gentle', target: target('/ok') }, 'groups');
  await platform.schedule('softer', { cron: '7 * * * *', eventCount: '3', policy: 'gentle', target: { http: { uri: 'http://127.0.0.1:99/' } } }, 'groups');
  const page = await openPage(browser, platform, { where: '/ui/groups' });
  const grid = page.getByRole('grid');
  const choose = async (by, group, events) => {
    await open(page, `groups?${new URLSearchParams({ by, group })}`);
    await grid.getByRole('gridcell', { name: new RegExp(`:05–\\d\\d:10: ${events} events$`) }).nth(2).click();
  };
  await choose('policy', 'gentle', 7);
  await grid.getByText(/^\d\d:07: soft 4, softer 3\.$/).waitFor();
  await grid.getByText(/^\d\d:07 has 7 events, \d\d:06 has 0\.$/).waitFor();
  assert.equal(await grid.getByRole('link', { name: 'plain' }).count(), 0);
  // The sentence above the map is about the group, and its number leads to the group's schedules.
  await page.getByText(/^168 events of 2 schedules of the policy gentle, /).waitFor();
  await page.getByText(/^The busiest minute of gentle is \d\d:07: soft 4, softer 3\.$/).waitFor();
  await page.getByRole('link', { name: '2 schedules' }).click();
  const listed = async () => (await page.getByRole('table').locator('tbody tr').evaluateAll((rows) => rows.map((row) => row.querySelector('a').textContent))).join();
  await until(async () => (await listed()) === 'soft,softer', 'the schedules of the policy');
  await choose('policy', '-', 60);
  await grid.getByText(/^\d\d:07: 30 events of 1 schedule\.$/).waitFor();
  // Another port is another target.
  await choose('target', 'http:http://127.0.0.1:9', 60);
  await grid.getByText(/^\d\d:07: 30 events of 1 schedule\.$/).waitFor();
  await page.getByText(/^The busiest minute of http:\/\/127\.0\.0\.1:9 is \d\d:0[78]: plain 30\.$/).waitFor();
  // Other choices leave the place that one looks at.
  const top = await page.evaluate(() => scrollY);
  assert.ok(top > 300, `${top}`);
  await page.getByLabel('Group by').selectOption('policy');
  await page.getByRole('table', { name: 'Events of the next 24 hours, by policy' }).waitFor();
  assert.ok(await page.evaluate((before) => scrollY === Math.min(before, document.documentElement.scrollHeight - innerHeight), top), 'the page stays where it is');
  await page.getByLabel('Group by').selectOption('target');
  await page.getByRole('table', { name: 'Events of the next 24 hours, by target' }).waitFor();
  // A click on a group's picture opens its hours.
  await page.getByRole('row').filter({ has: page.getByRole('link', { name: 'http://127.0.0.1:9', exact: true }) }).locator('svg').click();
  await page.getByText(/^1,440 events of 1 schedule of the target http:\/\/127\.0\.0\.1:9, /).waitFor();
  assert.notEqual(await page.evaluate(() => scrollY), 0);
  await page.getByRole('link', { name: '1 schedule' }).click();
  await until(async () => (await listed()) === 'plain', 'the schedules of the target');
  page.check();
  await page.context().close();
});

for (const colorScheme of ['light', 'dark']) {
  test(`pictures fit and are accessible from 360 to 1440 px: ${colorScheme}`, { timeout: 200000 }, async () => {
    const page = await openPage(browser, platform, { context: { colorScheme } });
    const { targets } = await platform.api('GET', '/tenants/default/targets');
    const found = [];
    for (const width of [360, 768, 1024, 1440]) {
      await page.setViewportSize({ width, height: 800 });
      for (const [where, wait] of [['default', 'canvas'], ['default?range=48h&by=target', 'canvas'], ['default/policies/narrow', 'canvas'], [`default/targets/${targets[0].name.split('/').pop()}`, 'canvas'], ['default/schedules/bars', '.run-bars'], ['load?by=policy', '.map.groups']]) {
        await open(page, where);
        await page.locator(wait).first().waitFor();
        for (const summary of await page.locator('.picture summary').all()) await summary.click();
        for (const violation of await axe(page)) found.push(`${where} at ${width}: ${violation}`);
        found.push(...await page.evaluate(([where_, width_]) => {
          const root = document.documentElement;
          const beyond = root.scrollWidth > root.clientWidth ? [`${where_} is wider than ${width_}`] : [];
          const cut = [...document.querySelectorAll(':is(.picture, .section-head, .last-runs, .map, .shades) :is(h2, h3, p, li, button, a, strong, td, th, .lane-text, .lane-name)')].filter((e) => e.clientWidth && e.scrollWidth > e.clientWidth + 1);
          const outside = [...document.querySelectorAll('.picture canvas, .run-bars, .map svg')].filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1);
          return [...beyond, ...[...cut, ...outside].map((e) => `${where_} at ${width_}: ${e.tagName} ${e.className} ${e.textContent.slice(0, 40)} is cut off`)];
        }, [where, width]));
      }
    }
    assert.deepEqual(found, []);
    page.check();
    await page.context().close();
  });
}
