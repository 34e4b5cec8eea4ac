// Access to the page: sign-in, session cookie, roles, Content-Security-Policy, calls of other origins.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { openBrowser, openPage, Platform, seed, startReceiver, until } from './harness.mjs';

let platform, receiver, browser;
const keys = {};
before(async () => {
  receiver = await startReceiver();
  platform = await Platform.start();
  browser = await openBrowser();
  await seed(platform, receiver);
  for (const role of ['VIEWER', 'OPERATOR', 'EDITOR', 'ADMIN']) {
    keys[role] = (await platform.api('POST', '/tenants/default/keys', { role, displayName: role })).secret;
    await until(async () => (await platform.raw('GET', '/v1/tenants', { key: keys[role] })).status === 200, `the key of a ${role}`);
  }
});
after(async () => {
  await browser?.close();
  await platform?.stop();
  receiver?.close();
});

test('a wrong key is refused in words, a right one leads to where the address says', async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/policies/gentle', signIn: false });
  await page.getByLabel('API key').fill('esc_wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('This key is not valid').waitFor();
  await page.getByLabel('API key').fill(platform.key);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'gentle', exact: true }).waitFor();
  page.check();
  await page.context().close();
});

test('the cookie is out of reach of scripts and other sites', async () => {
  const page = await openPage(browser, platform);
  const cookies = await page.context().cookies();
  assert.equal(cookies.length, 1);
  const { name, httpOnly, secure, sameSite, path: where, domain, expires } = cookies[0];
  assert.deepEqual({ name, httpOnly, secure, sameSite, where, domain }, { name: '__Host-escapement', httpOnly: true, secure: true, sameSite: 'Strict', where: '/', domain: 'localhost' });
  assert.ok(expires - Date.now() / 1000 <= 12 * 3600 + 60);
  assert.equal(await page.evaluate(() => document.cookie), '');
  assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }).includes('esc_')), false);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('API key').waitFor();
  assert.deepEqual(await page.context().cookies(), []);
  assert.equal(await page.evaluate(async () => (await fetch('/v1/tenants')).status), 401);
  await page.context().close();
});

test('a key that is revoked leads back to the sign-in', async () => {
  const made = await platform.api('POST', '/tenants/default/keys', { role: 'VIEWER' });
  await until(async () => (await platform.raw('GET', '/v1/tenants', { key: made.secret })).status === 200, 'the key');
  const page = await openPage(browser, platform, { key: made.secret });
  await platform.api('POST', `/${made.name}:revoke`, {});
  await page.getByLabel('API key').waitFor();
  await page.context().close();
});

test('what was typed is still there after a new sign-in of the same caller, and only then', { timeout: 90000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/new-schedule' });
  const type = async (name) => {
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByLabel('URL').fill('https://example.com/draft');
    await page.context().clearCookies();
    await page.getByRole('button', { name: 'Create schedule' }).click();
  };
  const signIn = async (key) => {
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByLabel('API key').waitFor({ state: 'detached' });
  };
  await type('kept-draft');
  await page.getByLabel('API key').waitFor();
  assert.equal(await page.getByLabel('URL').isVisible(), false);
  await signIn(platform.key);
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'kept-draft');
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByRole('heading', { name: 'kept-draft', exact: true }).waitFor();
  assert.equal((await platform.api('GET', '/tenants/default/schedules/kept-draft')).target.http.uri, 'https://example.com/draft');

  await page.goto(`${platform.origin}/ui/default/new-schedule`);
  await type('of-somebody-else');
  await signIn(keys.EDITOR);
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), '');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('API key').waitFor();
  assert.equal(await page.locator('#main').count(), 0);
  page.check();
  await page.context().close();
});

test('views load again after a new sign-in', { timeout: 60000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules' });
  await page.getByRole('link', { name: 'nightly-report' }).waitFor();
  await page.context().clearCookies();
  await page.getByRole('link', { name: 'nightly-report' }).click().catch(() => {}); // the sign-in may be there before
  await page.getByLabel('API key').fill(platform.key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('nightly-report').first().waitFor();
  await page.getByRole('link', { name: 'Policies', exact: true }).click();
  await page.getByRole('link', { name: 'gentle' }).waitFor();
  page.check();
  await page.context().close();
});

test('a browser that denies storage shows the page', async () => {
  const init = () => Object.defineProperty(window, 'localStorage', { get: () => { throw new DOMException('denied', 'SecurityError'); } });
  const page = await openPage(browser, platform, { where: '/ui/default/schedules', init });
  await page.getByRole('link', { name: 'nightly-report' }).waitFor();
  await page.getByLabel('Colours').selectOption('dark');
  await page.getByLabel('Times').selectOption('utc');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  page.check();
  await page.context().close();
});

test('an address that cannot be decoded, or has signs of other addresses, is not found', { timeout: 60000 }, async () => {
  const page = await openPage(browser, platform);
  for (const [where, text] of [['%E0%A4%A', 'This address has no view'], ['schedules/%E0%A4%A', /Not found|This did not work/], ['schedules/nightly-report%3Fx', /Not found|This did not work/], ['dead-letters?within=1e99', 'lost-invoice']]) {
    await page.goto(`${platform.origin}/ui/default/${where}`);
    await page.locator('main').getByText(text).first().waitFor();
  }
  page.check();
  await page.context().close();
});

test('inline code and foreign sources are refused by the browser', async () => {
  const page = await openPage(browser, platform);
  const blocked = await page.evaluate(async () => {
    const seen = [];
    addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
    const add = (name, attributes) => document.body.append(Object.assign(document.createElement(name), attributes));
    add('script', { textContent: 'window.inline = 1' });
    add('script', { src: 'https://example.com/x.js' });
    add('img', { src: 'https://example.com/x.png' });
    add('iframe', { src: 'https://example.com/' });
    document.body.setAttribute('onclick', 'window.inline = 1');
    document.body.click();
    await fetch('https://example.com/').catch(() => {});
    await new Promise((done) => setTimeout(done, 300));
    return { seen: [...new Set(seen)].sort(), inline: window.inline };
  });
  assert.equal(blocked.inline, undefined);
  for (const directive of ['script-src-elem', 'script-src-attr', 'img-src', 'frame-src', 'connect-src']) assert.ok(blocked.seen.includes(directive), `${directive} of ${blocked.seen}`);
  await page.context().close();
});

test('a page of another origin cannot use the session', async () => {
  const foreign = http.createServer((_, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end('<h1>foreign</h1>'));
  await new Promise((done) => foreign.listen(0, '127.0.0.1', done));
  const page = await openPage(browser, platform);
  const other = await page.context().newPage();
  // Another port of the same host is "same-site", so that SameSite alone does not keep it out.
  for (const host of ['localhost', '127.0.0.1']) {
    await other.goto(`http://${host}:${foreign.address().port}/`);
    const answers = await other.evaluate(async (origin) => {
      const results = [];
      for (const [method, where, headers] of [['POST', '/v1/tenants?tenantId=stolen', {}], ['POST', '/v1/tenants?tenantId=stolen', { 'X-Escapement-CSRF': '1' }], ['GET', '/v1/tenants', {}], ['DELETE', '/ui/session', { 'X-Escapement-CSRF': '1' }]]) {
        for (const mode of ['cors', 'no-cors']) {
          results.push(await fetch(origin + where, { method, headers, mode, credentials: 'include', body: method === 'POST' ? '{}' : undefined }).then((answer) => answer.type, () => 'refused'));
        }
      }
      const form = document.createElement('form');
      Object.assign(form, { method: 'POST', action: `${origin}/v1/tenants?tenantId=stolen`, enctype: 'text/plain', target: 'hidden' });
      document.body.append(Object.assign(document.createElement('iframe'), { name: 'hidden' }), form);
      form.submit();
      await new Promise((done) => setTimeout(done, 300));
      return results;
    }, platform.origin);
    for (const answer of answers) assert.ok(['refused', 'opaque'].includes(answer), answers.join());
  }
  const tenants = await platform.api('GET', '/tenants');
  assert.deepEqual(tenants.tenants.map((tenant) => tenant.name), ['tenants/default']);
  await page.reload();
  await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
  foreign.closeAllConnections();
  foreign.close();
  await page.context().close();
});

/** What each role sees; the roles above see it, too. */
const buttons = {
  OPERATOR: [['schedules/nightly-report', ['Run now nightly-report', 'Pause nightly-report', 'Backfill']], ['policies/gentle', ['Pause']], ['dead-letters', ['Redrive all that match']], ['events/lost-invoice', ['Redrive']], ['notifications/on-call', ['Send a test']]],
  EDITOR: [['schedules/nightly-report', ['Delete']], ['calendars/holidays', ['Delete']], ['notifications/on-call', ['Delete']], ['policies/gentle', ['Delete']], ['dead-letters', ['Purge all that match']]],
};
test('a role sees only what it may do', { timeout: 120000 }, async () => {
  const order = ['VIEWER', 'OPERATOR', 'EDITOR', 'ADMIN'];
  for (const role of order) {
    const page = await openPage(browser, platform, { key: keys[role] });
    const views = await page.getByRole('navigation', { name: 'Views' }).getByRole('link').allTextContents();
    assert.equal(views.includes('Keys'), role === 'ADMIN', role);
    assert.equal(views.includes('Audit'), role === 'ADMIN', role);
    for (const [least, places] of Object.entries(buttons)) {
      for (const [where, names] of places) {
        await page.goto(`${platform.origin}/ui/default/${where}`);
        await page.locator('main h1').waitFor();
        for (const name of names) assert.equal(await page.getByRole('button', { name, exact: true }).count() > 0, order.indexOf(role) >= order.indexOf(least), `${role}: ${name} of ${where}`);
      }
    }
    await page.goto(`${platform.origin}/ui/default/schedules`);
    await page.getByRole('link', { name: 'nightly-report' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'New schedule' }).count() > 0, order.indexOf(role) >= 2, role);
    await page.goto(`${platform.origin}/ui/default/notifications`);
    await page.getByRole('row').filter({ hasText: 'on-call' }).getByText('E-mail to ada@example.org').waitFor();
    assert.equal(await page.getByRole('link', { name: 'New notification' }).count() > 0, order.indexOf(role) >= 2, role);
    await page.goto(`${platform.origin}/ui/default/schedules/nightly-report`);
    await page.locator('main h1').waitFor();
    assert.equal(await page.getByRole('link', { name: 'Notify me when this fails' }).count() > 0, order.indexOf(role) >= 2, role);
    page.check();
    await page.context().close();
  }
});

test('a caller of one tenant does not see another one', async () => {
  await platform.api('POST', '/tenants?tenantId=team-b', {});
  const page = await openPage(browser, platform, { key: keys.VIEWER, where: '/ui/team-b/schedules' });
  await page.getByText('Not found').first().waitFor();
  assert.equal(await page.getByRole('combobox', { name: 'Tenant' }).count(), 0);
  await page.goto(`${platform.origin}/ui`);
  await page.waitForURL('**/ui/default');
  await page.context().close();
});

test('without required credentials the page needs no sign-in, and other origins still may not change', async () => {
  const open = await Platform.start({ secure: false });
  const page = await openPage(browser, open, { where: '/ui' });
  await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Sign out' }).count(), 0);
  const answer = await open.raw('POST', '/v1/tenants?tenantId=stolen', { body: '{}', headers: { Origin: 'https://evil.example' } });
  assert.equal(answer.status, 403, answer.text);
  page.check();
  await page.context().close();
  await open.stop();
});
