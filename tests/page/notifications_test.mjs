// Notifications: made by a form, listed, tested and deleted; a schedule that fails shows up, and its messages arrive.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, openBrowser, openPage, Platform, startReceiver, until } from './harness.mjs';

const subscriptions = '/tenants/default/subscriptions';
const CHECKED = { timeout: 60000 }; // the platform checks every ten seconds
let platform, receiver, browser, page;
before(async () => {
  receiver = await startReceiver();
  receiver.state.broken = false;
  [platform, browser] = await Promise.all([Platform.start(), openBrowser()]);
  await platform.schedule('fragile', { interval: { every: '3s' }, retryPolicy: { maxAttempts: 1 }, labels: { team: 'a "b" \\c' }, target: { http: { uri: `${receiver.url}/repairable` } } });
  page = await openPage(browser, platform);
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
const main = () => page.locator('main');
const field = (label) => page.getByLabel(label, { exact: true });
const box = (kind) => page.getByRole('checkbox', { name: new RegExp(`^${kind}`) });
const heading = (name) => page.getByRole('heading', { name, level: 1, exact: true }).waitFor();
const row = (table, text) => page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: text });
const refused = async (button, labels) => {
  await page.getByRole('button', { name: button }).click();
  await wrong(labels);
};
const wrong = async (labels) => {
  for (const label of labels) await until(async () => (await field(label).getAttribute('aria-invalid')) === 'true', `${label} is refused`);
  await until(() => field(labels[0]).evaluate((input) => document.activeElement === input), 'the first wrong field has the focus');
};
/** The messages that one subscription has sent. */
const messages = (where) => receiver.got.filter((each) => each.path === where).map((each) => JSON.parse(each.body));
const http = (where) => ({ http: { uri: `${receiver.url}${where}` } });
const subscription = (id, fields) => platform.api('POST', `${subscriptions}?subscriptionId=${id}`, { target: http('/ok'), ...fields });

test('a failing schedule gives a message, shows up, and its end gives another one', { timeout: 240000 }, async () => {
  await open('schedules/fragile');
  await page.getByRole('link', { name: 'Notify me when this fails' }).click();
  await heading('New notification');
  assert.deepEqual([await field('Name').inputValue(), await field('Which schedules').inputValue(), await field('Schedule').inputValue(), await field('Text for people').inputValue()], ['fragile-fails', 'one', 'fragile', 'fragile fails']);
  assert.deepEqual([await box('Failed').isChecked(), await box('Late').isChecked(), await field('Late after').count()], [true, false, 0]);
  await field('Name').fill('fragile');
  await box('Failed').uncheck();
  await refused('Create notification', ['Mail server', 'From', 'To']);
  await field('Late after').fill('90');
  await field('Late after').press('Enter');
  await wrong(['Late after']);
  await page.getByText('Add a unit').first().waitFor();
  await field('Late after').fill('1.5 min');
  await field('Target').selectOption('http');
  await field('URL').fill(`${receiver.url}/notice`);
  await page.getByRole('button', { name: 'Create notification' }).click();
  await heading('fragile');
  const made = await platform.api('GET', `${subscriptions}/fragile`);
  assert.deepEqual([made.filter, made.kinds ?? [], made.lateBy, made.target.http.uri], ['name = "fragile"', [], '90s', `${receiver.url}/notice`]);
  await main().getByText(`HTTP ${receiver.url}/notice`).waitFor();
  await main().getByText('1 min 30 s after its time').waitFor();
  await main().getByText('There was none.').waitFor();
  await main().getByText('All is well: no problem lasts.').waitFor(CHECKED);
  await main().locator('.badge.good', { hasText: 'All is well' }).waitFor();
  assert.deepEqual(await axe(page), []);

  receiver.state.broken = true;
  const problem = row('Problems', 'Failed');
  await problem.getByText(/^\d+ runs?$/).waitFor(CHECKED);
  await problem.getByText('the disk is full').waitFor();
  await main().locator('.badge.bad', { hasText: '1 problem' }).waitFor();
  assert.equal(await main().getByText('All is well').count(), 0);
  assert.equal(await problem.locator('.good').count(), 0);
  const [told] = await until(() => messages('/notice').length && messages('/notice'), 'the message', 60);
  assert.equal(told.subscription.split('/').pop(), 'fragile');
  assert.deepEqual(told.problems.map((each) => [each.kind, each.schedule]), [['FAILED', 'tenants/default/schedules/fragile']]);
  await problem.locator('td').last().getByText(/ago$|^now$/).waitFor(CHECKED);
  await main().locator('dd', { hasText: 'Its event' }).getByText('Completed').waitFor();
  assert.deepEqual(await axe(page), []);
  await main().getByRole('link', { name: 'Its event' }).click();
  await page.getByRole('heading', { name: /^Event notice-/ }).waitFor();
  await page.goBack();
  await problem.getByRole('link', { name: 'fragile' }).click();
  await heading('fragile');
  await page.getByRole('link', { name: 'Notify me when this fails' }).waitFor();
  await page.goBack();
  await problem.locator('td').nth(3).getByRole('link').click();
  await page.getByRole('heading', { name: /^Run of/ }).waitFor();
  await page.goBack();
  await open('notifications');
  await row('Notifications', 'fragile').locator('.badge.bad', { hasText: '1 problem' }).waitFor();

  receiver.state.broken = false;
  await open('notifications/fragile');
  await main().getByText('All is well: no problem lasts.').waitFor(CHECKED);
  const end = await until(() => messages('/notice').find((each) => each.ended?.length), 'the message of the end', 60);
  assert.deepEqual(end.ended.map((each) => [each.kind, each.schedule]), [['FAILED', 'tenants/default/schedules/fragile']]);
  assert.deepEqual(end.problems ?? [], []);
  page.check();
});

test('a test message is sent, and its event says what became of it', { timeout: 90000 }, async () => {
  await subscription('tested', { filter: 'name = "nobody"', target: http('/test-notice') });
  await open('notifications/tested');
  await page.getByRole('button', { name: 'Send a test' }).click();
  const status = main().getByRole('status').filter({ hasText: 'The test is sent.' });
  await status.getByText('Completed').waitFor();
  const [message] = await until(() => messages('/test-notice').length && messages('/test-notice'), 'the test message');
  assert.deepEqual(message.problems ?? [], []);
  await status.getByRole('link', { name: 'Its event' }).click();
  await page.getByRole('heading', { name: /^Event notice-/ }).waitFor();

  // A message that does not arrive is not green.
  await subscription('unheard', { filter: 'name = "nobody"', target: http('/fail') });
  await open('notifications/unheard');
  await page.getByRole('button', { name: 'Send a test' }).click();
  await status.getByText('Failed, will be retried').waitFor();
  assert.equal(await status.locator('.good').count(), 0);
  page.check();
});

test('the form has schedules by name, label and filter, and kinds', { timeout: 120000 }, async () => {
  await open('new-notification');
  await field('Target').selectOption('http');
  await field('URL').fill(`${receiver.url}/ok`);
  await field('Name').fill('of-a-team');
  await main().getByText('Also one-off events that fail.').waitFor();
  await field('Which schedules').selectOption('one');
  await refused('Create notification', ['Schedule']);
  await field('Schedule').fill('fragil');
  await main().getByText('No schedule matches at present.').waitFor();
  assert.deepEqual(await main().locator('#schedule-ids option').evaluateAll((all) => all.map((each) => each.value)), ['fragile']);
  await field('Schedule').fill('fragile');
  await main().getByText('No schedule matches at present.').waitFor({ state: 'detached' });
  await field('Which schedules').selectOption('own');
  assert.equal(await field('Filter').inputValue(), 'name = "fragile"');
  await field('Filter').fill('nonsense <');
  await refused('Create notification', ['Filter']);
  await field('Filter').fill('labels.team = shop');
  await main().getByText('No schedule matches at present.').waitFor();
  await field('Which schedules').selectOption('label');
  assert.equal(await field('Label').inputValue(), 'team=shop');
  await field('Label').fill('team');
  await refused('Create notification', ['Label']);
  await field('Label').fill('team=a "b" \\c');
  await main().getByText('No schedule matches at present.').waitFor({ state: 'detached' });
  await field('Late after').fill('31 d');
  await refused('Create notification', ['Late after']);
  await box('Late').check();
  await box('Missed').check();
  await field('Late after').fill('2 d');
  await page.getByRole('button', { name: 'Create notification' }).click();
  await heading('of-a-team');
  const get = () => platform.api('GET', `${subscriptions}/of-a-team`);
  let made = await get();
  assert.deepEqual([made.filter, made.kinds, made.lateBy], ['labels.team = "a \\"b\\" \\\\c"', ['LATE', 'MISSED'], '172800s']);
  await main().getByRole('link', { name: 'Schedules with the label team=a "b" \\c' }).click();
  await main().getByText('1 schedule', { exact: true }).waitFor();

  await open('notifications/of-a-team/edit');
  assert.deepEqual([await field('Which schedules').inputValue(), await field('Label').inputValue(), await field('Late after').inputValue()], ['label', 'team=a "b" \\c', '2 d']);
  assert.deepEqual([await box('Failed').isChecked(), await box('Late').isChecked(), await box('Missed').isChecked()], [false, true, true]);
  await box('Late').uncheck();
  assert.equal(await field('Late after').count(), 0);
  await box('Missed').uncheck();
  await field('Text for people').fill('Those <b>on call</b>');
  await field('Which schedules').selectOption('all');
  await field('Late after').fill('');
  await page.getByRole('button', { name: 'Save' }).click();
  await heading('of-a-team');
  made = await get();
  assert.deepEqual([made.filter ?? '', made.kinds ?? [], made.lateBy, made.displayName, made.version], ['', [], '300s', 'Those <b>on call</b>', '2']);
  await main().getByText('Those <b>on call</b>').waitFor();
  await open('new-notification');
  await field('Name').fill('of-a-team');
  await field('Target').selectOption('http');
  await field('URL').fill(`${receiver.url}/ok`);
  await page.getByRole('button', { name: 'Create notification' }).click();
  await main().getByRole('alert').waitFor(); // the name is taken
  page.check();
});

test('the list says in words what is covered and where messages go', { timeout: 60000 }, async () => {
  await subscription('by-mail', { displayName: 'Ada by mail', filter: 'labels."app.io/a" = "x y"', kinds: ['FAILED', 'AT_RISK'], target: { email: { smtpUri: 'smtp://127.0.0.1:25', plaintext: true, from: 'a@example.org', to: ['ada@example.org', 'ben@example.org'] } } });
  await subscription('by-filter', { filter: 'name = "nightly-*" AND state = ENABLED' });
  await open('notifications');
  for (const [id, texts] of [
    ['by-mail', ['Ada by mail', 'Schedules with the label app.io/a=x y', 'Failed, at risk', 'E-mail to ada@example.org, ben@example.org']],
    ['by-filter', ['Schedules that match name = "nightly-*" AND state = ENABLED', 'All kinds', `HTTP ${receiver.url}/ok`]],
  ]) for (const text of texts) await row('Notifications', id).getByText(text).waitFor();
  await row('Notifications', 'by-filter').getByText('All is well').waitFor(CHECKED);
  assert.deepEqual(await axe(page), []);
  await row('Notifications', 'by-mail').getByRole('link', { name: 'by-mail' }).click();
  await heading('by-mail');
  page.check();
});

test('a notification is made with the keyboard alone, found by the palette, and deleted', { timeout: 90000 }, async () => {
  await open('schedules/fragile');
  await page.locator('main h1').focus();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('notify me when fragile');
  await page.getByRole('option', { name: 'Notify me when fragile fails' }).waitFor();
  await page.keyboard.press('Enter');
  await heading('New notification');
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.closest('label')?.innerText.trim());
  const tabTo = async (what) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      if (!(await focused())?.startsWith(what)) continue;
      const outlined = await page.evaluate(() => getComputedStyle(document.activeElement.closest('.choice') ?? document.activeElement).outlineStyle);
      return assert.notEqual(outlined, 'none', `${what} shows no focus`);
    }
    assert.fail(`Tab does not reach ${what}`);
  };
  await tabTo('field-subscription-id');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('by-keyboard');
  await tabTo('Paused');
  await page.keyboard.press('Space');
  await tabTo('field-target');
  await page.keyboard.type('HTTP');
  await tabTo('field-target-http-uri');
  await page.keyboard.type(`${receiver.url}/ok`);
  await page.keyboard.press('Enter');
  await heading('by-keyboard');
  assert.deepEqual((await platform.api('GET', `${subscriptions}/by-keyboard`)).kinds, ['FAILED', 'PAUSED']);

  await open('operations');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('by-keyb');
  await page.getByRole('option', { name: 'by-keyboard' }).waitFor();
  await page.keyboard.press('Enter');
  await heading('by-keyboard');
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('by-keyboard is deleted.').waitFor();
  await heading('Notifications');
  await row('Notifications', 'fragile').waitFor();
  assert.equal(await row('Notifications', 'by-keyboard').count(), 0);
  assert.equal((await platform.raw('GET', `/v1${subscriptions}/by-keyboard`, { key: platform.key })).status, 404);
  page.check();
});

test('an address of the API leads to the notification, and one that is not there is not found', { timeout: 60000 }, async () => {
  await open('subscriptions/fragile');
  await heading('fragile');
  await open('notifications/nobody');
  await heading('Not found');
  await open('notifications/nobody/edit');
  await heading('Not found');
  page.check();
});
