// Every action of the page, as people take it: schedules, runs, events, dead letters, policies, keys, tenants.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openBrowser, openPage, Platform, seed, startReceiver, until } from './harness.mjs';

let platform, receiver, browser, page;
before(async () => {
  receiver = await startReceiver();
  platform = await Platform.start();
  browser = await openBrowser();
  await seed(platform, receiver);
  page = await openPage(browser, platform);
  page.on('dialog', (question) => void question.accept().catch(() => {})); // "Leave without saving?"
});
after(async () => {
  await browser?.close();
  await platform?.stop();
  receiver?.close();
});

const open = async (where) => {
  await page.goto(`${platform.origin}/ui/default/${where}`);
  await page.locator('main h1').waitFor();
};
const dialog = () => page.getByRole('dialog');
const answer = async (button) => {
  await dialog().getByRole('button', { name: button }).click();
  await dialog().waitFor({ state: 'hidden' });
};
const main = () => page.locator('main');

test('a new user makes a schedule, finds the failed run of yesterday and redrives it', { timeout: 90000 }, async () => {
  await open('');
  // A schedule, with a mistake on the way.
  await page.getByRole('link', { name: 'Schedules', exact: true }).first().click();
  await page.getByRole('link', { name: 'New schedule' }).click();
  await page.getByLabel('Name', { exact: true }).fill('First One');
  await page.getByLabel('Cron expression').fill('61 9 * * *');
  await page.locator('.preview .error').waitFor();
  await page.getByRole('button', { name: 'Each night at 2:30' }).click();
  await page.locator('.preview').getByText('At 02:30, every day').waitFor();
  await page.getByLabel('URL').fill(`${receiver.url}/ok`);
  await page.getByLabel('Payload', { exact: true }).fill('{"from":"the page"}');
  await page.getByRole('button', { name: 'Send one now' }).click();
  await page.getByText('It arrived').waitFor();
  assert.equal(receiver.got.filter((each) => each.body === '{"from":"the page"}').length, 1);
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByText('This cannot be saved').waitFor();
  assert.equal(await page.getByLabel('Name', { exact: true }).getAttribute('aria-invalid'), 'true');
  await page.getByLabel('Name', { exact: true }).fill('first-one');
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByRole('heading', { name: 'first-one', exact: true }).waitFor();
  const made = await platform.api('GET', '/tenants/default/schedules/first-one');
  assert.equal(made.cron, '30 2 * * *');
  assert.equal(made.timeZone, 'Europe/Berlin');

  // The run of yesterday.
  await page.getByRole('link', { name: 'Day', exact: true }).click();
  await page.getByRole('button', { name: 'Day before' }).click();
  await page.getByRole('link', { name: /failed at/ }).click();
  await page.getByText('Permanently failed').first().waitFor();
  await main().getByText('the disk is full').first().waitFor();
  receiver.state.broken = false;
  await page.getByRole('button', { name: /^Redrive the failed events/ }).click();
  await dialog().getByText('Redrive 1 failed event?').waitFor();
  await answer('Redrive 1');
  await main().getByText('1 succeeded', { exact: true }).waitFor();
  await page.getByRole('link', { name: '0', exact: true }).click();
  await main().getByText('"rows": 42').waitFor();
  page.check();
});

test('a schedule says why it failed, why it is late, and what may be done about it', { timeout: 60000 }, async () => {
  const target = { http: { uri: `${receiver.url}/fail` } };
  await platform.schedule('broken-export', { interval: { every: '1800s' }, retryPolicy: { maxAttempts: 1 }, target });
  const { name } = await platform.ended((await platform.run('broken-export')).name);
  await until(async () => (await platform.api('GET', '/tenants/default/schedules/broken-export')).lastOutcome === 'FAILED', 'the outcome');
  await open('');
  const row = page.getByRole('table', { name: 'Due within an hour' }).getByRole('row').filter({ hasText: 'broken-export' });
  await row.getByRole('link', { name: 'Failed' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/schedules/broken-export/runs/${name.split('/').pop()}?outcome=FAILED`);
  await main().getByText('HTTP 500: the disk is full').first().waitFor();
  // Header and list are of one reading.
  assert.equal(await main().getByText('Failed, will be retried').count(), 0);
  // It is found after it has left the table, too.
  await open('');
  await main().getByRole('listitem').filter({ hasText: /broken-export 1 event, the last .* HTTP 500: the disk is full/ }).getByRole('link').click();
  await page.waitForURL(`**/schedules/broken-export/runs/${name.split('/').pop()}?outcome=FAILED`);
  const redrive = page.getByRole('button', { name: /^Redrive the failed events/ });
  assert.match(await redrive.getAttribute('title'), /no new run$/);
  await redrive.click();
  await dialog().getByText(/in the same run.*would make a new run/).waitFor();
  await page.keyboard.press('Escape');
  await open('schedules/broken-export');
  await main().locator('p', { hasText: 'HTTP 500: the disk is full' }).getByRole('link', { name: /^\d+ \w+ \d{4}, / }).waitFor();
  await page.getByRole('button', { name: /^Run now/ }).click();
  await dialog().getByText(/^Makes a new run/).waitFor();
  await page.keyboard.press('Escape');

  await platform.api('POST', '/tenants/default/policies?policyId=of-the-late', { maxConcurrent: '1' });
  await platform.api('POST', '/tenants/default/policies/of-the-late:pause', {});
  await platform.schedule('held-export', { cron: '0 0 1 1 *', policy: 'of-the-late', completion: 'ON_DELIVERY', target });
  const late = (await platform.run('held-export')).name;
  const other = await openPage(browser, platform);
  await other.clock.setFixedTime(Date.now() + 300000);
  await other.goto(`${platform.origin}/ui/default/schedules/held-export`);
  await other.locator('p', { hasText: 'The policy of-the-late is paused.' }).getByRole('link', { name: /^\d+ \w+ \d{4}, / }).click();
  await other.waitForURL(`**/runs/${late.split('/').pop()}`);
  other.check();
  await other.context().close();
  page.check();
});

test('a schedule is edited in fields and as text, copied and deleted', { timeout: 60000 }, async () => {
  await open('schedules/nightly-report/edit');
  await page.getByLabel('Text for people').fill('Edited');
  await page.getByLabel('If the last run is still active').selectOption('SKIP');
  await page.getByLabel('Attempts', { exact: true }).fill('7');
  await page.getByText('The schedule as text').click();
  const text = page.getByLabel('The schedule as JSON');
  const json = JSON.parse(await text.inputValue());
  assert.equal(json.displayName, 'Edited');
  await text.fill('{');
  await page.locator('details .error').getByText(/./).waitFor();
  await text.fill(JSON.stringify({ ...json, labels: { team: 'new' } }));
  await page.getByRole('button', { name: 'YAML' }).click();
  const yaml = page.getByLabel('The schedule as YAML');
  await until(async () => (await yaml.inputValue()).includes('team: new'), 'YAML');
  await yaml.fill((await yaml.inputValue()).replace('30 2 * * *', '45 2 * * *'));
  await page.locator('.preview').getByText('At 02:45, every day').waitFor();
  assert.equal(await page.getByLabel('Cron expression').inputValue(), '45 2 * * *');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: 'nightly-report', exact: true }).waitFor();
  const saved = await platform.api('GET', '/tenants/default/schedules/nightly-report');
  assert.deepEqual([saved.displayName, saved.cron, saved.overlapPolicy, saved.retryPolicy.maxAttempts, saved.labels.team], ['Edited', '45 2 * * *', 'SKIP', 7, 'new']);

  await page.getByRole('link', { name: 'Copy' }).click();
  await page.getByLabel('Name', { exact: true }).fill('nightly-copy');
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByRole('heading', { name: 'nightly-copy', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await answer('Delete');
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  assert.equal((await platform.raw('GET', '/v1/tenants/default/schedules/nightly-copy', { key: platform.key })).status, 404);
  page.check();
});

test('a change of somebody else is not overwritten', async () => {
  await open('schedules/nightly-report/edit');
  await page.getByLabel('Text for people').fill('Mine');
  await platform.api('PATCH', '/tenants/default/schedules/nightly-report?updateMask=displayName', { displayName: 'Theirs' });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('This cannot be saved').waitFor();
  assert.equal((await platform.api('GET', '/tenants/default/schedules/nightly-report')).displayName, 'Theirs');
});

test('intervals, given times and every kind of target can be made', { timeout: 90000 }, async () => {
  const make = async (id, fill, check) => {
    await open('new-schedule');
    await page.getByLabel('Name', { exact: true }).fill(id);
    await fill();
    await page.getByRole('button', { name: 'Create schedule' }).click();
    await page.getByRole('heading', { name: id, exact: true }).waitFor();
    check(await platform.api('GET', `/tenants/default/schedules/${id}`));
  };
  const target = (kind) => page.getByLabel('Target', { exact: true }).selectOption(kind);
  await make('of-interval', async () => {
    await page.getByRole('button', { name: 'Every so often' }).click();
    await page.getByLabel('Every', { exact: true }).fill('1h 30m');
    await page.locator('.preview').getByText(/90 minutes|1 hour/i).first().waitFor();
    await page.getByLabel('URL').fill('https://example.com/a');
    await page.getByLabel('Headers', { exact: true }).fill('X-Team: billing');
    await page.getByLabel('Throttling policy').selectOption('tenants/default/policies/gentle');
    // The form asks whether the consumer gives tokens back, and does not choose.
    await page.getByRole('button', { name: 'Create schedule' }).click();
    await page.locator('.failure').getByText('say whether your service gives tokens back').waitFor();
    await page.getByLabel('An event holds its token').selectOption('ON_DELIVERY');
    await page.getByLabel('Deliver all within').fill('10 min');
    await page.getByLabel('Spread').selectOption('EVEN');
    await page.getByText('More', { exact: true }).first().click();
    await page.getByLabel('Labels').fill('team: billing\nkind: sync');
    await page.getByLabel('Random delay, up to').fill('5s');
  }, (s) => assert.deepEqual([s.interval.every, s.target.http.headers, s.policy, s.completion, s.window.pacing, s.labels, s.jitter], ['5400s', { 'X-Team': 'billing' }, 'tenants/default/policies/gentle', 'ON_DELIVERY', 'EVEN', { team: 'billing', kind: 'sync' }, '5s']));
  await make('of-times', async () => {
    await page.getByRole('button', { name: 'At given times' }).click();
    await page.getByLabel('Times', { exact: true }).last().fill('2030-12-24T18:00:00Z\n2031-12-24T18:00:00+01:00');
    await target('ping');
    await page.getByLabel('URL').fill('https://example.com/ping');
  }, (s) => assert.deepEqual([s.times.length, s.target.ping.uri], [2, 'https://example.com/ping']));
  await make('to-grpc', async () => {
    await target('grpc');
    await page.getByLabel('Address', { exact: true }).fill('dns:///jobs.example.com:50051');
  }, (s) => assert.equal(s.target.grpc.uri, 'dns:///jobs.example.com:50051'));
  await make('to-kafka', async () => {
    await target('kafka');
    await page.getByLabel('Brokers').fill('kafka.example.com:9092');
    await page.getByLabel('Topic').fill('jobs');
  }, (s) => assert.equal(s.target.kafka.topic, 'jobs'));
  await make('to-sqs', async () => {
    await target('sqs');
    await page.getByLabel('Queue URL').fill('https://sqs.eu-central-1.amazonaws.com/1/jobs');
  }, (s) => assert.equal(s.target.sqs.region, 'eu-central-1'));
  await make('to-mail', async () => {
    await target('email');
    await page.getByLabel('Mail server').fill('smtps://mail.example.com');
    await page.getByLabel('From', { exact: true }).fill('jobs@example.com');
    await page.getByLabel('To', { exact: true }).fill('ops@example.com, dev@example.com');
  }, (s) => assert.deepEqual(s.target.email.to, ['ops@example.com', 'dev@example.com']));
  page.check();
});

test('durations are typed as people type them, and shown in the same words', { timeout: 90000 }, async () => {
  await open('new-schedule');
  await page.getByLabel('Name', { exact: true }).fill('of-decimals');
  await page.getByRole('button', { name: 'Every so often' }).click();
  const every = page.getByLabel('Every', { exact: true });
  const create = page.getByRole('button', { name: 'Create schedule' });
  assert.equal(await every.inputValue(), '1 h');
  await every.fill('');
  await every.pressSequentially('1.05 min');
  assert.equal(await every.inputValue(), '1.05 min'); // not changed while it is typed
  await every.blur();
  assert.equal(await every.inputValue(), '1 min 3 s');
  await page.getByLabel('URL').fill('https://example.com/a');

  // Texts that are no durations are not sent: the first of them has the focus.
  await page.getByLabel('First wait, up to').fill('soon');
  await page.getByLabel('Give up after').fill('90');
  await every.focus();
  await main().getByText('Add a unit: 90 s, 90 min, 90 h or 90 d.').waitFor();
  await create.click();
  await page.getByText('This cannot be saved').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'field-retry-policy-min-backoff');
  await page.locator('.failure').getByRole('link', { name: 'Give up after' }).click();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'field-retry-policy-max-age');
  await page.getByLabel('First wait, up to').fill('250ms');
  await page.getByLabel('Give up after').fill('60 d');
  await create.click();
  // The server's errors stand at their fields in our words.
  await main().locator('#field-retry-policy-max-age-error').getByText('Write a value from 1 ms to 30 d.').waitFor();
  await until(() => page.evaluate(() => document.activeElement.id === 'field-retry-policy-max-age'), 'the focus is on the wrong field');
  await page.getByLabel('Give up after').fill('2d');
  await create.click();
  await page.getByRole('heading', { name: 'of-decimals', exact: true }).waitFor();
  await main().getByText('every 1 min 3 s', { exact: true }).waitFor();
  await main().getByText('first wait up to 250 ms').waitFor();
  const made = await platform.api('GET', '/tenants/default/schedules/of-decimals');
  assert.deepEqual([made.interval.every, made.retryPolicy.minBackoff, made.retryPolicy.maxAge], ['63s', '0.250s', '172800s']);
  await platform.api('PATCH', '/tenants/default/schedules/of-decimals?updateMask=interval', { interval: { every: '90061.25s' } });
  await main().getByText('every 1 d 1 h 1 min 1.25 s', { exact: true }).waitFor();
});

test('a click on a button counts although the field before it turns out wrong', { timeout: 60000 }, async () => {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 360, height: 800 }); // each field has a row of its own
  await open('new-policy');
  await page.getByLabel('Name', { exact: true }).fill('of-a-click');
  const button = page.getByRole('button', { name: 'Create policy' });
  await button.scrollIntoViewIfNeeded();
  await page.getByLabel('Hold time', { exact: true }).fill('90');
  const box = await button.boundingBox();
  await page.mouse.move(box.x + 20, box.y + 5);
  await page.mouse.down();
  // The error does not move the button while the pointer is on it.
  await page.evaluate(() => new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted))));
  assert.deepEqual(await button.boundingBox(), box);
  await page.mouse.up();
  await page.getByText('This cannot be saved').waitFor();
  await page.getByText('Add a unit').first().waitFor();
  // A field that is left without a click says at once what is wrong.
  await open('new-policy');
  await page.getByLabel('Hold time', { exact: true }).fill('90');
  await page.keyboard.press('Tab');
  await page.getByText('Add a unit').waitFor();
  await page.setViewportSize(before);
  page.check();
});

test('cron fields with a year are shown and edited with that year', { timeout: 60000 }, async () => {
  await platform.schedule('of-a-year', { cronFields: { minute: '30', hour: '4', dayOfMonth: '1', month: '2', year: '2031-2035' }, timeZone: 'UTC', target: { http: { uri: 'https://example.com/a' } } });
  await open('schedules/of-a-year');
  await main().getByText('0 30 4 1 2 * 2031-2035', { exact: true }).waitFor();
  await open('schedules/of-a-year/edit');
  await page.locator('.preview').getByText('1 Feb 2031, 05:30:00', { exact: true }).waitFor();
  await page.locator('.preview').getByText('1 Feb 2031, 04:30:00 UTC', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: 'of-a-year', exact: true }).waitFor();
  const saved = await platform.api('GET', '/tenants/default/schedules/of-a-year');
  assert.equal(saved.cron, '0 30 4 1 2 * 2031-2035');
  assert.equal(saved.nextTime, '2031-02-01T04:30:00Z');
});

test('a second try after a lost answer has no second effect', { timeout: 120000 }, async () => {
  // The server gets the call, and its answer is lost.
  const loseOne = (pattern) => page.route(pattern, async (route) => (route.request().method() === 'POST' ? (await route.fetch(), await route.abort()) : route.continue()), { times: 1 });
  const made = async (field, where = field) => (await platform.api('GET', `/tenants/default/${where}`))[field] ?? [];
  const schedules = async () => (await made('schedules', 'schedules?pageSize=1000')).filter((each) => each.displayName === 'Once').length;
  await open('new-schedule');
  await page.getByLabel('Text for people').fill('Once');
  await page.getByLabel('URL').fill(`${receiver.url}/ok`);
  await loseOne(/\/v1\/tenants\/default\/schedules(\?|$)/);
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByText('The server cannot be reached.').waitFor();
  assert.equal(await schedules(), 1);
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByRole('button', { name: /^Run now/ }).waitFor();
  assert.equal(await schedules(), 1);

  // Another schedule after a lost answer is not made without a word.
  await open('new-schedule');
  await page.getByLabel('Text for people').fill('Once');
  await page.getByLabel('URL').fill(`${receiver.url}/ok`);
  await loseOne(/\/v1\/tenants\/default\/schedules(\?|$)/);
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByText('The server cannot be reached.').waitFor();
  await page.getByLabel('URL').fill(`${receiver.url}/ok?changed`);
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByText('An earlier try of this form has succeeded').waitFor();
  assert.equal(await schedules(), 2);

  await open('new-event');
  await page.getByLabel('URL').fill(`${receiver.url}/only-once`);
  await loseOne(/\/v1\/tenants\/default\/events(\?|$)/);
  await page.getByRole('button', { name: 'Create event' }).click();
  await page.getByText('The server cannot be reached.').waitFor();
  await page.getByRole('button', { name: 'Create event' }).click();
  await page.getByRole('heading', { name: /^Event / }).waitFor();
  await main().getByText('Completed').first().waitFor();
  assert.equal(receiver.got.filter((each) => each.path === '/only-once').length, 1);

  await open('schedules/nightly-report');
  await loseOne(/nightly-report:trigger/);
  for (let i = 0; i < 2; i++) {
    await page.getByRole('button', { name: 'Run now nightly-report' }).click();
    await answer('Run now');
    if (i === 0) await page.getByText('The server cannot be reached.').waitFor();
  }
  await page.getByRole('heading', { name: /^Run of/ }).waitFor();
  assert.equal((await made('runs', 'schedules/nightly-report/runs')).length, 1);
  page.check();
});

test('a preview shows what clocks that change do', async () => {
  await open('new-schedule');
  await page.getByLabel('Time zone').fill('Europe/Berlin');
  await page.getByLabel('Cron expression').fill('30 2 L 3 SUN');
  await page.getByRole('button', { name: 'By the calendar' }).click();
  await page.getByLabel('Cron expression').fill('30 2 25-31 3 *');
  await page.locator('.preview').getByText('clocks go forward').first().waitFor();
  await page.getByLabel('Time zone').fill('Nowhere/Land');
  await page.locator('.preview .error').waitFor();
  assert.equal(await page.getByLabel('Time zone').getAttribute('aria-invalid'), 'true');
});

test('a schedule is paused, resumed, run and backfilled; the state changes without a reload', { timeout: 60000 }, async () => {
  await open('schedules/import-orders');
  await page.getByRole('button', { name: 'Pause import-orders' }).click();
  await dialog().getByLabel('Reason').fill('x'.repeat(201));
  await dialog().getByRole('button', { name: 'Pause' }).click();
  await dialog().getByText('Write at most 200 characters.').waitFor();
  await dialog().getByLabel('Reason').fill('a test');
  await answer('Pause');
  await main().getByText('a test').first().waitFor(); // also in the sentence why it waits
  await page.getByRole('button', { name: 'Resume import-orders' }).click();
  await answer('Resume');
  await page.getByRole('button', { name: 'Pause import-orders' }).waitFor();
  await page.getByRole('button', { name: 'Backfill' }).click();
  await dialog().getByLabel('From').fill(new Date(Date.now() - 3 * 86400000).toISOString().slice(0, 16));
  await dialog().getByRole('button', { name: 'Count them' }).click(); // the next question follows at once
  await dialog().getByText(/^Fire (1|2|3) missed runs?\?$/).waitFor();
  await answer('Backfill');
  await page.getByText('The backfill is done').waitFor();
  // Somebody else pauses it.
  await platform.api('POST', '/tenants/default/schedules/import-orders:pause', { reason: 'by another hand' });
  await main().getByText('by another hand').first().waitFor();
  await platform.api('POST', '/tenants/default/schedules/import-orders:resume', {});
  await page.getByRole('button', { name: 'Run now import-orders' }).click();
  await answer('Run now');
  await page.getByRole('heading', { name: /^Run of/ }).waitFor();
  await main().getByText('1 succeeded', { exact: true }).waitFor();
  page.check();
});

test('a run is cancelled from the list, after the page has said how many events', async () => {
  await open('schedules/batch');
  await page.getByRole('button', { name: /^Cancel the run/ }).click();
  await dialog().getByText('Cancel 12 open events?').waitFor();
  await answer('Cancel 12');
  await page.getByText('The run is cancelled.').waitFor();
  await main().getByText(/10 cancelled/).first().waitFor();
  page.check();
});

test('a policy is made, changed, paused and resumed; a token is released', { timeout: 60000 }, async () => {
  await open('policies/gentle');
  await page.getByRole('button', { name: /^Release the token/ }).first().click();
  await answer('Release');
  await until(async () => Number((await platform.api('GET', '/tenants/default/policies/gentle:usage')).heldCount ?? 0) === 1, 'one holder');
  await page.getByRole('button', { name: 'Pause', exact: true }).click();
  await answer('Pause');
  await page.getByRole('button', { name: 'Resume', exact: true }).click();
  await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
  await page.getByRole('link', { name: 'Edit' }).click();
  await page.getByLabel('Events out at once').fill('7');
  await page.getByRole('button', { name: 'Save' }).click();
  await main().getByText('7 at once').waitFor();
  await open('new-policy');
  await page.getByLabel('Name', { exact: true }).fill('slow');
  await page.getByLabel('Events out at once').fill('0');
  await page.getByRole('button', { name: 'Create policy' }).click();
  await page.getByText('This cannot be saved').waitFor();
  await page.getByLabel('Events per second').fill('2.5');
  await page.getByRole('button', { name: 'Create policy' }).click();
  await main().getByText('2.5 per second').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await answer('Delete');
  await page.getByRole('heading', { name: 'Policies', exact: true }).waitFor();
  page.check();
});

test('an event is made and cancelled', async () => {
  await open('new-event');
  await page.getByLabel('URL').fill(`${receiver.url}/ok`);
  await page.getByLabel('Id', { exact: true }).fill('by-hand');
  await page.getByLabel('Due (local time)').fill('2031-01-01T00:00');
  await page.getByRole('button', { name: 'Create event' }).click();
  await page.getByRole('heading', { name: 'Event by-hand', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  await answer('Cancel 1');
  await main().getByText('Cancelled', { exact: true }).waitFor();
  page.check();
});

test('an event is made under a policy, waits there and then holds a token', { timeout: 60000 }, async () => {
  await platform.api('POST', '/tenants/default/policies?policyId=narrow', { maxConcurrent: '1' });
  await platform.api('POST', '/tenants/default/policies/narrow:pause', {});
  await open('new-event');
  await page.getByLabel('URL').fill(`${receiver.url}/ok`);
  await page.getByLabel('Id', { exact: true }).fill('throttled');
  await page.getByLabel('Throttling policy').selectOption('tenants/default/policies/narrow');
  await page.getByRole('button', { name: 'Create event' }).click();
  await page.locator('.failure').getByText('say whether your service gives tokens back').waitFor();
  await page.getByLabel('An event holds its token').selectOption('ON_RELEASE');
  await page.getByRole('button', { name: 'Create event' }).click();
  await page.getByRole('heading', { name: 'Event throttled', exact: true }).waitFor();
  const made = await platform.api('GET', '/tenants/default/events/throttled');
  assert.deepEqual([made.state, made.policy, made.completion], ['PENDING', 'tenants/default/policies/narrow', 'ON_RELEASE']);
  await main().getByRole('link', { name: 'narrow', exact: true }).click();
  await page.getByRole('heading', { name: 'narrow', exact: true }).waitFor();
  await main().getByText('one-off events: 1 event, the first was due').waitFor();
  await page.getByRole('button', { name: 'Resume', exact: true }).click();
  await main().getByRole('button', { name: 'Release the token of tenants/default/events/throttled' }).waitFor();
  await main().getByRole('link', { name: 'throttled', exact: true }).click();
  await page.getByRole('heading', { name: 'Event throttled', exact: true }).waitFor();
  await main().getByRole('link', { name: 'narrow', exact: true }).waitFor();
  page.check();
});

test('a schedule gets further limits, and keeps them when something else changes', { timeout: 60000 }, async () => {
  for (const [id, policy] of [['licences', { maxConcurrent: '20' }], ['everybody', { maxConcurrent: '200' }]]) await platform.api('POST', `/tenants/default/policies?policyId=${id}`, policy);
  await platform.schedule('limited', { cron: '0 0 1 1 *', policy: 'everybody', policyKey: 'acme', completion: 'ON_DELIVERY', target: { http: { uri: `${receiver.url}/ok` } } });
  const limits = async () => (await platform.api('GET', '/tenants/default/schedules/limited')).limits.map((l) => [l.policy, l.policyKey, l.weight]);
  const both = [['tenants/default/policies/everybody', 'acme', '1'], ['tenants/default/policies/licences', '', '3']];
  const save = async () => {
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'limited', exact: true }).waitFor();
  };
  await open('schedules/limited/edit');
  await page.getByRole('button', { name: 'Add a limit' }).click();
  await page.getByLabel('Throttling policy 2').selectOption('tenants/default/policies/licences');
  await page.getByLabel('Tokens for each event 2').fill('21');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('.field').getByText('is more than the 20 tokens of tenants/default/policies/licences').waitFor();
  await page.getByLabel('Tokens for each event 2').fill('3');
  await save();
  assert.deepEqual(await limits(), both);
  await main().getByText('everybody, key acme', { exact: true }).waitFor();
  await main().getByText('licences, 3 tokens for each event', { exact: true }).waitFor();
  await open('schedules/limited/edit');
  await page.getByLabel('Text for people').fill('Limited twice');
  await save();
  assert.deepEqual(await limits(), both);
  await open('schedules/limited/edit');
  await page.getByRole('button', { name: 'Remove limit 2' }).click();
  await save();
  const saved = await platform.api('GET', '/tenants/default/schedules/limited');
  assert.deepEqual([saved.displayName, saved.policy, saved.policyKey], ['Limited twice', 'tenants/default/policies/everybody', 'acme']);
  page.check();
});

test('dead letters are redriven one by one, selected and all; the rest is purged with its progress', { timeout: 90000 }, async () => {
  receiver.state.broken = true;
  for (let i = 0; i < 5; i++) await platform.api('POST', `/tenants/default/events?eventId=bad-${i}`, { dueTime: new Date().toISOString(), retryPolicy: { maxAttempts: 1 }, target: { http: { uri: `${receiver.url}/repairable` } } });
  const letters = async () => (await platform.api('GET', '/tenants/default/deadLetters')).deadLetters ?? [];
  const failed = async (n) => until(async () => (await letters()).filter((letter) => letter.event.includes('bad-')).length === n, `${n} dead letters`);
  await failed(5);
  receiver.state.broken = false;
  await open('dead-letters');
  const row = (text) => page.getByRole('row').filter({ hasText: text });
  await row('bad-0').getByRole('link').click();
  await page.getByRole('button', { name: 'Redrive' }).click();
  await answer('Redrive 1');
  await failed(4);
  await open('dead-letters');
  for (const id of ['bad-1', 'bad-2']) await row(id).getByRole('checkbox').check();
  await page.getByRole('button', { name: 'Redrive 2 selected' }).click();
  await dialog().getByText('Redrive 2 events?').waitFor();
  await answer('Redrive 2');
  await failed(2);
  await page.getByLabel('Find', { exact: true }).fill('event = "tenants/default/events/bad-*"');
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await row('lost-invoice').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Redrive all that match' }).click();
  await dialog().getByText('Redrive 2 events?').waitFor();
  await answer('Redrive 2');
  await page.locator('.operation').getByText('2 of 2').waitFor();
  await failed(0);
  await open('dead-letters');
  await page.getByRole('button', { name: 'Purge all that match' }).click();
  await answer(/^Purge/);
  await page.getByText('No event has failed for good.').waitFor();
  await open('operations');
  await page.getByRole('link', { name: 'Purge' }).click();
  await main().getByText('Succeeded').first().waitFor();
  page.check();
});

test('a key is made, shown once, and revoked; the audit has both', { timeout: 60000 }, async () => {
  await open('keys');
  await page.getByLabel('For whom').fill('robot');
  await page.getByLabel('Role').selectOption('OPERATOR');
  await page.getByRole('button', { name: 'Create key' }).click();
  const secret = await page.locator('.secret').textContent();
  assert.match(secret, /^esc_[0-9a-f]{16}_[0-9a-f]{64}$/);
  await page.reload();
  await page.getByText('robot').waitFor();
  assert.equal((await page.content()).includes(secret), false);
  await page.getByRole('button', { name: 'Revoke robot' }).click();
  await answer('Revoke');
  await main().getByText('Revoked', { exact: true }).waitFor();
  await open('audit');
  await page.getByLabel('Find', { exact: true }).fill('RevokeKey');
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await main().getByText('RevokeKey').first().waitFor();
  page.check();
});

test('a tenant is made, gets quotas, and is suspended', { timeout: 60000 }, async () => {
  await open('tenants');
  await page.getByRole('button', { name: 'New tenant' }).click();
  await dialog().getByLabel('Id').fill('Team A');
  await dialog().getByRole('button', { name: 'Create' }).click();
  await dialog().locator('.error').waitFor();
  await until(() => page.evaluate(() => document.activeElement.name === 'id'), 'the field has the focus');
  assert.equal(await dialog().getByLabel('Id').inputValue(), 'Team A');
  await dialog().getByLabel('Id').fill('team-a');
  await answer('Create');
  await page.getByRole('link', { name: 'team-a' }).click();
  await page.waitForURL('**/ui/team-a');
  await page.getByRole('link', { name: 'Tenants', exact: true }).click();
  await page.getByRole('spinbutton', { name: 'Schedules' }).fill('5');
  await page.getByRole('button', { name: 'Save quotas' }).click();
  await until(async () => (await platform.api('GET', '/tenants/team-a')).quotas?.maxSchedules === '5', 'the quota');
  await page.getByRole('button', { name: 'Suspend team-a' }).click();
  await answer('Suspend');
  await page.getByRole('button', { name: 'Activate team-a' }).click();
  await until(async () => (await platform.api('GET', '/tenants/team-a')).state !== 'SUSPENDED', 'active');
  page.check();
});

test('a link shows the same filter, and back goes back', async () => {
  await open('schedules');
  await page.getByLabel('State').selectOption('PAUSED');
  await page.waitForURL('**/schedules?state=PAUSED');
  await page.getByRole('link', { name: 'paused-cleanup' }).waitFor();
  const link = page.url();
  await page.getByRole('link', { name: 'paused-cleanup' }).click();
  await page.getByRole('heading', { name: 'paused-cleanup', exact: true }).waitFor();
  await page.goBack();
  assert.equal(page.url(), link);
  await page.getByRole('link', { name: 'paused-cleanup' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'billing-sync' }).count(), 0);
  await page.goto(link);
  await page.getByRole('link', { name: 'paused-cleanup' }).waitFor();
  assert.equal(await page.getByLabel('State').inputValue(), 'PAUSED');
});

test('with the keyboard alone a schedule is made, found and run', { timeout: 60000 }, async () => {
  await open('');
  const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() || document.activeElement?.id || '');
  const tabTo = async (test, what) => {
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press('Tab');
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      if (test(await focused())) return assert.notEqual(outline, 'none', `${what} shows no focus`);
    }
    assert.fail(`Tab does not reach ${what}`);
  };
  await tabTo((text) => text === 'Schedules', 'the view');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  await until(async () => (await focused()) === 'Schedules' && (await page.evaluate(() => document.activeElement.tagName)) === 'H1', 'the new view is read from its heading on');
  await tabTo((text) => text === 'New schedule', 'the button');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'New schedule', exact: true }).waitFor();
  await tabTo((text) => text === 'field-schedule-id', 'the name');
  await page.keyboard.type('by-keyboard');
  await tabTo((text) => text === 'field-target-http-uri', 'the URL');
  await page.keyboard.type(`${receiver.url}/ok`);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'by-keyboard', exact: true }).waitFor();
  await tabTo((text) => text === 'Run now', 'the action');
  await page.keyboard.press('Space');
  await dialog().waitFor();
  await page.keyboard.press('Escape');
  await dialog().waitFor({ state: 'hidden' });
  await until(async () => (await focused()) === 'Run now', 'the focus is back where it was');
  await page.keyboard.press('Enter');
  await dialog().waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /^Run of/ }).waitFor();
  page.check();
});

test('a calendar is made of a file, changed after a look at what moves, and deleted', { timeout: 60000 }, async () => {
  await open('new-calendar');
  await page.getByLabel('Name', { exact: true }).fill('shop');
  await page.getByLabel('Dates of a file').setInputFiles({ name: 'h.ics', mimeType: 'text/calendar', buffer: Buffer.from('BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20311224\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n') });
  await page.getByLabel('Rules').fill('* *');
  await page.getByRole('button', { name: 'Create calendar' }).click();
  await page.getByText('This cannot be saved').waitFor();
  await page.getByLabel('Rules').fill('');
  await page.getByRole('button', { name: 'Create calendar' }).click();
  await page.locator('main').getByText('2031-12-24').first().waitFor();
  await open('new-schedule');
  await page.getByLabel('Name', { exact: true }).fill('opens');
  await page.getByLabel('Cron expression').fill('0 9 * * *');
  await page.getByLabel('URL').fill(`${receiver.url}/ok`);
  await page.locator('summary', { hasText: 'More' }).click();
  await page.getByLabel('Not on the days of').selectOption('shop');
  await page.getByLabel('On such a day').selectOption('NEXT');
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByText('opens is saved').waitFor();
  const made = await platform.api('GET', '/tenants/default/schedules/opens');
  assert.deepEqual([made.calendar, made.onExcluded], ['tenants/default/calendars/shop', 'NEXT']);
  await open('calendars/shop/edit');
  const tomorrow = new Date(Date.now() + 2 * 86400000).toISOString().slice(0, 10);
  await page.getByLabel('Dates', { exact: true }).fill(tomorrow);
  await page.getByRole('button', { name: 'Show what moves' }).click();
  await page.getByText('1 schedule will get other days').waitFor();
  assert.equal((await platform.api('GET', '/tenants/default/calendars/shop')).version, '1');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('shop is saved').waitFor();
  await until(async () => (await platform.api('GET', '/tenants/default/schedules/opens')).version === '2', 'the schedule has the days');
  await platform.api('DELETE', '/tenants/default/schedules/opens');
  await open('calendars/shop');
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('shop is deleted').waitFor();
});

test('a policy whose tokens never come back says so', { timeout: 60000 }, async () => {
  await platform.api('POST', '/tenants/default/policies?policyId=forgotten', { maxConcurrent: '1', holdTimeout: '1s' });
  await platform.schedule('forgetful', { cron: '0 0 1 1 *', policy: 'forgotten', target: { http: { uri: `${receiver.url}/ok` } } });
  await platform.run('forgetful');
  await open('policies/forgotten');
  await main().getByText('No token was ever given back').waitFor();
});
