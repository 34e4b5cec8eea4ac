// Throttling policies: limits of keys in the form, overrides made and ended, and the keys.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, openBrowser, openPage, Platform, startReceiver, until } from './harness.mjs';

const SCRIPT = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">';
const LONG = `${'W'.repeat(90)}  two spaces "&amp;' ${'W'.repeat(17)}`; // of 128 bytes, the most that a key may have
const MANY = 250; // keys: more than a page of a list
const policies = '/tenants/default/policies';
let platform, receiver, browser, page;

/** One-off events of a policy, one for each of these keys. */
const events = (policy, keys, more = {}) => platform.api('POST', '/tenants/default/events:batchCreate', {
  requests: keys.map((policyKey) => ({ event: { policy, policyKey, target: { http: { uri: `${receiver.url}/ok` } }, ...more } })),
});
const usage = (id) => platform.api('GET', `${policies}/${id}:usage`);

before(async () => {
  receiver = await startReceiver();
  platform = await Platform.start();
  browser = await openBrowser();
  await platform.api('POST', `${policies}?policyId=customers`, { maxConcurrent: '2', perKey: { maxConcurrent: '1' } });
  await platform.api('POST', `${policies}/customers:pause`, {});
  await events('customers', [SCRIPT, LONG, '', ...Array.from({ length: MANY }, (_, i) => `customer-${String(i).padStart(3, '0')}`)]);
  await events('customers', ['customer-007', 'customer-007']);
  await events('customers', ['customer-007'], { dueTime: new Date(Date.now() + 86400000).toISOString() });
  page = await openPage(browser, platform, { where: '/ui/default/policies' });
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
const dialog = () => page.getByRole('dialog');
const answer = async (button) => {
  await dialog().getByRole('button', { name: button }).click();
  await dialog().waitFor({ state: 'hidden' });
};
const field = (label) => page.getByLabel(label, { exact: true });
const refused = async (label) => {
  await page.getByText('This cannot be saved').waitFor();
  const id = await field(label).getAttribute('id');
  await main().locator(`#${id}-error`).waitFor();
  assert.equal(await field(label).getAttribute('aria-invalid'), 'true');
};
const row = (key) => page.getByRole('table', { name: 'Keys' }).getByRole('row').filter({ hasText: key });
const find = async (key) => {
  await page.getByLabel('Find', { exact: true }).fill(key);
  await page.keyboard.press('Enter');
};
const keys = () => page.getByRole('table', { name: 'Keys' }).locator('tbody .key');

test('the form has the limits of each key, turns of keys and kept tokens', { timeout: 60000 }, async () => {
  await open('new-policy');
  await field('Name').fill('in-order');
  await field('Events out at once').fill('');
  await field('Who goes first').selectOption('BY_KEY');
  await field('Events per second').pressSequentially('0.05');
  await page.getByRole('button', { name: 'Create policy' }).click();
  await refused('Who goes first'); // there are no limits for keys
  await field('Events of one key out at once').fill('1');
  await field('Burst of one key').fill('3');
  await page.getByRole('button', { name: 'Create policy' }).click();
  await refused('Burst of one key'); // without a rate
  await field('Events of one key per second').pressSequentially('0.025');
  await field('After a failed attempt').selectOption('KEEP_TOKEN');
  await page.getByRole('button', { name: 'Create policy' }).click();
  await main().getByText('1 of a key at once, 0.025 of a key per second').waitFor();
  await main().locator('dd').getByText('keys take turns').waitFor();
  await main().locator('dd').getByText('the event keeps its token').waitFor();
  const made = await platform.api('GET', `${policies}/in-order`);
  assert.deepEqual([made.perKey, made.maxPerSecond, made.fairness, made.retries], [{ maxConcurrent: '1', maxPerSecond: 0.025, burst: '3' }, 0.05, 'BY_KEY', 'KEEP_TOKEN']);

  // What is emptied is no limit any more.
  await page.getByRole('link', { name: 'Edit', exact: true }).click();
  await page.getByRole('button', { name: 'Save' }).waitFor();
  assert.deepEqual([await field('Who goes first').inputValue(), await field('After a failed attempt').inputValue(), await field('Burst of one key').inputValue()], ['BY_KEY', 'KEEP_TOKEN', '3']);
  for (const label of ['Events of one key out at once', 'Events of one key per second', 'Burst of one key']) await field(label).fill('');
  await field('Events out at once').fill('4');
  await field('Events per second').fill(''); // its burst of 1, which nobody has set, goes with it
  await field('Who goes first').selectOption('FIFO');
  await field('After a failed attempt').selectOption('FREE_TOKEN');
  await page.getByRole('button', { name: 'Save' }).click();
  await main().locator('dd').getByText('the token is free for other events').waitFor();
  const saved = await platform.api('GET', `${policies}/in-order`);
  assert.deepEqual([saved.perKey ?? null, saved.maxConcurrent, Number(saved.maxPerSecond ?? 0), saved.fairness, saved.retries], [null, '4', 0, 'FIFO', 'FREE_TOKEN']);
  assert.equal(await page.getByRole('button', { name: 'Keys', exact: true }).count(), 0);
  page.check();
});

test('a policy that limits only the rate of each key asks for no tokens back', { timeout: 60000 }, async () => {
  await platform.api('POST', `${policies}?policyId=key-rate`, { perKey: { maxPerSecond: 100 } });
  await open('new-event');
  await field('URL').fill(`${receiver.url}/ok`);
  await field('Throttling policy').selectOption('tenants/default/policies/key-rate');
  assert.equal(await field('An event holds its token').inputValue(), 'ON_DELIVERY');
  await field('Throttling policy').selectOption('tenants/default/policies/customers');
  assert.equal(await field('An event holds its token').inputValue(), ''); // it asks, and does not choose
});

test('limits are overridden for a time, and the override is ended', { timeout: 90000 }, async () => {
  await platform.api('POST', `${policies}?policyId=drained`, { maxConcurrent: '10', maxPerSecond: 100 });
  await open('policies/drained');
  await page.getByRole('link', { name: 'Override limits' }).click();
  await page.getByRole('heading', { name: 'Override limits of drained', exact: true }).waitFor();
  assert.equal(await page.getByLabel('Limits of').count(), 0); // only a policy with limits for keys has a choice
  await field('Events out at once').fill('0');
  await page.getByRole('button', { name: 'Override limits' }).click();
  await refused('Reason');
  await field('Reason').fill('the disk of <b>db-1</b> is full');
  await field('For how long').fill('31 d');
  await page.getByRole('button', { name: 'Override limits' }).click();
  await refused('For how long');
  await field('For how long').fill('1h 30m');
  await page.getByRole('button', { name: 'Override limits' }).click();
  await main().getByText('nothing goes out instead of 10').waitFor();
  await main().getByText('the disk of <b>db-1</b> is full').waitFor();
  await main().getByText('0 of 0', { exact: true }).waitFor();
  let [override] = (await platform.api('GET', `${policies}/drained`)).overrides;
  assert.deepEqual([override.policyKey, override.maxConcurrent, override.maxPerSecond], [undefined, '0', undefined]);
  const minutes = (Date.parse(override.expireTime) - Date.now()) / 60000;
  assert.ok(minutes > 85 && minutes <= 90, `${minutes} minutes`);
  // The event waits although the policy itself has room.
  await events('drained', ['']);
  await main().getByText('one-off events: 1 event, the first was due').waitFor();

  // Another one takes its place, after the form has said so.
  await page.getByRole('link', { name: 'Override limits' }).click();
  await main().getByText('It replaces an override that is in force: nothing goes out').waitFor();
  await field('Events per second').fill('0.5');
  await field('Burst').fill('3');
  await field('Reason').fill('slowly');
  await page.getByRole('button', { name: 'Override limits' }).click();
  await main().getByText('0.5 per second in bursts of 3 instead of 100').waitFor();
  assert.equal((await platform.api('GET', `${policies}/drained`)).overrides.length, 1);
  await open('policies');
  await page.getByRole('row').filter({ hasText: 'drained' }).getByText('Override', { exact: true }).waitFor();
  await open('policies/drained');
  await page.getByRole('button', { name: 'End the override of the whole policy' }).click();
  await answer('End');
  await main().getByText('Overrides in force').waitFor({ state: 'detached' });
  assert.deepEqual((await platform.api('GET', `${policies}/drained`)).overrides ?? [], []);
  await until(async () => Number((await usage('drained')).heldCount ?? 0) === 1, 'the event goes out');
  await main().getByText('1 of 10', { exact: true }).waitFor();
  page.check();
});

test('keys are listed page by page, found by their begin, and overridden', { timeout: 90000 }, async () => {
  await open('policies/customers');
  await page.getByRole('button', { name: 'Keys', exact: true }).click();
  await page.waitForURL('**/customers?show=keys');
  await main().getByText('200+ keys').waitFor();
  for (let i = 0; i < 6; i++) await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await main().getByText(`${MANY + 3} keys`, { exact: true }).waitFor();
  await page.getByLabel('Find', { exact: true }).fill('customer-00');
  await page.keyboard.press('Enter');
  await main().getByText('10 keys', { exact: true }).waitFor();
  // Rows far below the window are not in the document.
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await until(async () => (await keys().count()) === 10, 'ten rows');
  assert.deepEqual(await keys().allTextContents(), Array.from({ length: 10 }, (_, i) => `customer-00${i}`));
  assert.deepEqual((await row('customer-007').locator('td').allTextContents()).slice(0, 3), ['customer-007', '0', '3']);
  await row('customer-007').getByTitle('and 1 event not due yet').waitFor();
  await row('customer-007').getByText(/^due .* ago$/).waitFor();

  await row('customer-007').getByRole('link', { name: 'Set an override of the key customer-007' }).click();
  assert.equal(await field('Key').inputValue(), 'customer-007');
  await field('Events out at once').fill('2');
  await field('Reason').fill('a large customer');
  await page.getByRole('button', { name: 'Override limits' }).click();
  await main().getByText('2 at once instead of 1').waitFor();
  await find('customer-007');
  await row('customer-007').getByText('2 at once').waitFor();
  // That of the empty key is another one than that of the whole policy.
  await page.getByRole('link', { name: 'Override limits', exact: true }).click();
  await field('Limits of').selectOption('key');
  await field('Events out at once').fill('3');
  await field('Reason').fill('events without a customer');
  await page.getByRole('button', { name: 'Override limits' }).click();
  await main().locator('.overrides').getByText('3 at once instead of 1').waitFor();
  const made = (await platform.api('GET', `${policies}/customers`)).overrides;
  assert.deepEqual(made.map((o) => [o.policyKey, o.maxConcurrent]), [['customer-007', '2'], ['', '3']]);
  assert.equal(await main().getByText('The whole policy').count(), 0);
  await main().locator('.overrides li').filter({ hasText: '(empty)' }).getByRole('button').click();
  await dialog().getByText('to the key (empty)').waitFor();
  await answer('End');
  await main().locator('.overrides').getByText('3 at once').waitFor({ state: 'detached' });
  await find('customer-007');
  await row('customer-007').getByRole('button', { name: 'End the override of the key customer-007' }).click();
  await answer('End');
  await main().getByText('Overrides in force').waitFor({ state: 'detached' });
  await page.getByLabel('Find', { exact: true }).fill('nobody');
  await page.keyboard.press('Enter');
  await main().getByText('No event of a key that begins so').waitFor();
  page.check();
});

test('keys are shown as they are, whatever text they have', { timeout: 60000 }, async () => {
  for (const key of [SCRIPT, LONG]) {
    await page.goto(`${platform.origin}/ui/default/policies/customers?${new URLSearchParams({ show: 'keys', q: key.slice(0, 20) })}`);
    await keys().first().waitFor();
    assert.equal(await keys().first().innerText(), key); // with all its spaces
    await page.getByRole('link', { name: /^Set an override of the key/ }).click();
    assert.equal(await field('Key').inputValue(), key);
    await field('Events out at once').fill('4');
    await field('Reason').fill(SCRIPT);
    await page.getByRole('button', { name: 'Override limits' }).click();
    await main().locator('.overrides li').filter({ hasText: '4 at once' }).first().waitFor();
  }
  assert.deepEqual((await main().locator('.overrides .key').allInnerTexts()).sort(), [SCRIPT, LONG].sort());
  assert.deepEqual((await platform.api('GET', `${policies}/customers`)).overrides.map((o) => o.policyKey), [SCRIPT, LONG]);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator('main img, main script, main b').count(), 0);
  page.check();
});

test('nothing is cut off, from 360 to 1440 px', { timeout: 120000 }, async () => {
  const found = [];
  for (const width of [360, 480, 768, 1024, 1440]) {
    await page.setViewportSize({ width, height: 800 });
    for (const where of ['policies', 'policies/customers', 'policies/customers?show=keys', `policies/customers/override?of=key&key=${encodeURIComponent(LONG)}`, 'new-policy']) {
      await open(where);
      if (where.endsWith('keys')) {
        await main().getByText('200+ keys').waitFor();
        await page.evaluate(() => scrollTo(0, document.querySelector('.filters').getBoundingClientRect().top));
        await keys().first().waitFor();
      }
      for (const violation of await axe(page)) found.push(`${where} at ${width}: ${violation}`);
      found.push(...await page.evaluate(([where_, width_]) => {
        const root = document.documentElement;
        const beyond = root.scrollWidth > root.clientWidth ? [`${where_} is wider than ${width_}`] : [];
        const cut = [...document.querySelectorAll('main :is(th, td, .button, button, dd, li, h1, .lane-name, .lane-text, .field > :not(input))')].filter((e) => e.clientWidth && e.scrollWidth > e.clientWidth + 1);
        const out = [...document.querySelectorAll('main td :is(.button, button)')].filter((e) => e.getBoundingClientRect().right > e.closest('td').getBoundingClientRect().right);
        return [...beyond, ...[...cut, ...out].map((e) => `${where_} at ${width_}: ${e.tagName} ${e.textContent.slice(0, 40)} is cut off`)];
      }, [where, width]));
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  assert.deepEqual(found, []);
  page.check();
});

test('a list says if the server has not read all rows of its keys', async () => {
  const pattern = /customers:keys/;
  await page.route(pattern, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), truncated: true } });
  });
  await open('policies/customers?show=keys&q=customer-00');
  await main().getByText('counts are too small, and some keys are missing').waitFor();
  await page.unroute(pattern);
  await open('policies/customers?show=keys&q=customer-00');
  await main().getByText('10 keys', { exact: true }).waitFor();
  assert.equal(await main().getByText('counts are too small').count(), 0);
  page.check();
});

test('who may only read sees overrides and keys, and no button for them', { timeout: 60000 }, async () => {
  await platform.api('POST', `${policies}/customers:override`, { override: { policyKey: 'customer-001', maxConcurrent: '0', reason: 'asked for', expireTime: new Date(Date.now() + 3600000).toISOString() } });
  for (const role of ['VIEWER', 'OPERATOR']) {
    const { secret } = await platform.api('POST', '/tenants/default/keys', { displayName: role, role });
    await until(async () => (await platform.raw('GET', `/v1${policies}`, { key: secret })).status === 200, 'the key');
    const other = await openPage(browser, platform, { key: secret, where: '/ui/default/policies/customers?show=keys&q=customer-00', context: { viewport: { width: 1280, height: 1600 } } });
    await other.locator('.overrides').getByText('asked for').waitFor();
    await other.getByRole('table', { name: 'Keys' }).getByText('customer-001').waitFor();
    const may = role === 'OPERATOR';
    assert.equal(await other.getByRole('link', { name: 'Override limits' }).count(), may ? 1 : 0, role);
    assert.equal(await other.getByRole('link', { name: /^Set an override of the key/ }).count(), may ? 9 : 0, role);
    assert.equal(await other.getByRole('button', { name: 'End the override of the key customer-001' }).count(), may ? 2 : 0, role);
    other.check();
    await other.context().close();
  }
});
