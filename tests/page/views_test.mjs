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

test('an event at a target that is down says so', { timeout: 90000 }, async () => {
  const event = { target: { http: { uri: 'http://127.0.0.1:9/down' } } }; // nothing listens there
  await platform.api('POST', '/tenants/default/events:batchCreate', { requests: Array(20).fill({ event }) });
  let waiting;
  await until(async () => {
    await platform.api('POST', '/tenants/default/events', event); // the first twenty open the circuit breaker
    const { events } = await platform.api('GET', '/tenants/default/events?filter=state%3DPENDING&pageSize=1000');
    return (waiting = events?.find((each) => each.status === 'TARGET_DOWN'));
  }, 'an event that waits for its target');
  const page = await openPage(browser, platform, { where: `/ui/default/events/${waiting.name.split('/').pop()}` });
  await page.locator('main').getByText('Waits, target is down').waitFor();
  await page.locator('main').getByText(/^target is down: /).waitFor();
  await page.locator('main').getByText('Next try').waitFor();
  await page.locator('main').getByText('Why it waits').waitFor();
  page.check();
  await page.context().close();
});
