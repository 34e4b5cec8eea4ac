// The day of schedules: which day is shown, its first and last instant, and marks for all that runs or is to come.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openBrowser, openPage, Platform, startReceiver, until } from './harness.mjs';

let platform, receiver, browser, ran;
before(async () => {
  receiver = await startReceiver();
  platform = await Platform.start();
  browser = await openBrowser();
  const target = { http: { uri: `${receiver.url}/ok` } };
  await platform.schedule('midnight', { cron: '0 0 * * *', timeZone: 'Europe/Berlin', target });
  await platform.schedule('quarters', { cron: '*/15 * * * *', target });
  await platform.schedule('hourly', { cron: '30 * * * *', target });
  await platform.schedule('minutely', { cron: '* * * * *', target });
  await platform.schedule('dense', { cron: '*/5 * * * * *', target });
  const run = await platform.ended((await platform.run('midnight')).name);
  ran = new Date(run.nominalTime).toLocaleDateString('sv', { timeZone: 'Europe/Berlin' });
});
after(async () => {
  await browser?.close();
  await platform?.stop();
  receiver?.close();
});

/** The day of the schedules whose names begin so. `clock`: the time that the page believes. */
async function openDay(find, { day = '', clock, context } = {}) {
  const page = await openPage(browser, platform, { context });
  if (clock) await page.clock.install({ time: clock });
  await page.goto(`${platform.origin}/ui/default/day?q=${find}${day && `&day=${day}`}`);
  const text = () => page.locator('.lane-text:not(.unseen)').last().innerText();
  return Object.assign(page, { text, shows: (what) => until(async () => (await text()).startsWith(what), what).catch(async () => assert.equal(await text(), what)) });
}

test('a step to another day shows that day, with its first instant', { timeout: 90000 }, async () => {
  const page = await openDay('midnight', { day: ran });
  await page.shows('1 completed');
  for (const button of ['Day after', 'Day before']) {
    for (let i = 0; i < 2; i++) await page.getByRole('button', { name: button }).click();
    await page.shows(button === 'Day after' ? '1 to come' : '1 completed');
  }
  page.check();
  await page.context().close();
});

test('at midnight the view goes on to the new day', { timeout: 90000 }, async () => {
  const page = await openDay('quarters', { clock: '2031-06-10T21:30:00Z' }); // 23:30 in Berlin
  await page.shows('1 to come');
  await page.clock.fastForward(3600000);
  await page.shows('93 to come');
  await page.getByRole('table', { name: 'Runs of 2031-06-11' }).waitFor();
  page.check();
  await page.context().close();
});

test('a day without a midnight ends at the next one', { timeout: 90000 }, async () => {
  // In Egypt the clocks go from 23:59 to 1:00 on the last Friday of April.
  const page = await openDay('hourly', { day: '2031-04-25', context: { timezoneId: 'Africa/Cairo' } });
  await page.shows('23 to come');
  await page.getByRole('button', { name: 'Day after' }).click();
  await page.shows('24 to come');
  page.check();
  await page.context().close();
});

test('today is the day of the zone in which times are shown', { timeout: 90000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules/hourly' });
  await page.clock.install({ time: '2031-06-10T22:10:00Z' }); // 0:10 of the next day in Berlin
  await page.reload();
  await page.getByRole('table', { name: 'Runs of 2031-06-11' }).waitFor();
  await page.getByLabel('Times').selectOption('utc');
  await page.getByRole('table', { name: 'Runs of 2031-06-10' }).waitFor();
  await page.goto(`${platform.origin}/ui/default/day?q=hourly`);
  await page.getByRole('table', { name: 'Runs of 2031-06-10' }).waitFor();
  page.check();
  await page.context().close();
});

test('marks reach to the end of the day, however often it fires', { timeout: 120000 }, async () => {
  const marks = (page) => page.locator('.lane rect.planned').count();
  const page = await openDay('minutely', { day: '2031-06-12' });
  await page.shows('1,440 to come');
  assert.equal(await marks(page), 96);
  await page.context().close();
  const often = await openDay('dense', { day: '2031-06-12' });
  await often.shows('5,');
  assert.match(await often.text(), /^5,\d+\+ to come$/);
  assert.equal(await marks(often), 96);
  often.check();
  await often.context().close();
});

test('marks are as high as their events are many, and no call is refused', { timeout: 90000 }, async () => {
  const target = { http: { uri: `${receiver.url}/ok` } };
  await platform.schedule('size-one', { cron: '0 12 * * *', target });
  await platform.schedule('size-rare', { cron: '0 12 29 2 *', target }); // not on the day that is shown
  await platform.schedule('size-thousands', { cron: '0 12 * * *', eventCount: '40000', target });
  const refused = [];
  const page = await openPage(browser, platform);
  page.on('response', (response) => response.status() >= 400 && refused.push(response.url()));
  await page.goto(`${platform.origin}/ui/default/day?q=size-&day=2031-06-12`);
  await page.getByRole('link', { name: '1 to come: 40,000 events' }).waitFor();
  await page.locator('.lane-text').getByText('nothing').waitFor();
  const [one, thousands] = await page.locator('.lane rect.planned').evaluateAll((all) => all.map((each) => Number(each.getAttribute('height'))));
  assert.ok(thousands >= 2 * one, `${one} and ${thousands}`);
  assert.deepEqual(refused, []);
  page.check();
  await page.context().close();
});

test('of many runs the last are shown, and the rest as not read', { timeout: 90000 }, async () => {
  const page = await openDay('midnight', { clock: '2031-06-10T20:00:00Z' });
  await page.shows('nothing');
  const name = 'tenants/default/schedules/midnight/runs/x';
  let next = Date.parse('2031-06-10T20:00:00Z');
  await page.context().route(/\/midnight\/runs\?/, (route) => route.fulfill({ json: { nextPageToken: 'more', runs: Array.from({ length: 1000 }, () => ({ name, state: 'COMPLETED', status: 'COMPLETED', nominalTime: new Date((next -= 10000)).toISOString(), completeTime: new Date(next + 1).toISOString() })) } }));
  await page.reload();
  await until(async () => (await page.text()).includes('2,000 completed (of the last 2,000 runs)'), 'the last runs');
  assert.equal(await page.locator('.lane rect.good').last().getAttribute('x'), await page.locator('.lane rect:not(.ground):not(.now)').last().getAttribute('x'));
  assert.ok((await page.locator('.lane rect.unread').count()) > 40);
  page.check();
  await page.context().close();
});

test('a day that cannot be read says so, and is read again', { timeout: 90000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/policies' });
  await page.context().route(/\/midnight\/runs\?/, (route) => route.abort(), { times: 1 });
  await page.goto(`${platform.origin}/ui/default/day?q=midnight&day=2031-06-12`);
  await page.getByText('The server cannot be reached.').waitFor();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.locator('.lane-text').getByText('1 to come').waitFor();
  // An address with a day that is none shows today.
  await page.goto(`${platform.origin}/ui/default/day?q=midnight&day=some-day`);
  await page.locator('.lane-text').getByText(/completed|nothing/).waitFor();
  assert.match(await page.getByLabel('Day', { exact: true }).inputValue(), /^\d{4}-\d\d-\d\d$/);
  page.check();
  await page.context().close();
});
