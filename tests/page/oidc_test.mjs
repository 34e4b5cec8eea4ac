// Sign-in with an issuer: OpenID Connect with npm's oidc-provider, and issuers, links and answers that mean harm.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { axe, openBrowser, openPage, Platform, require, until } from './harness.mjs';

const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));

const listen = (server) => new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));

/** Who may sign in, and what their tokens say. */
const PEOPLE = { ada: { org: 'default', groups: ['sre'] }, vera: { org: 'default', groups: ['all', 'x'] }, eve: { org: 'default', groups: ['guests'] } };
const tokens = { ttl: 300 }; // seconds

let issuer, provider, fakes, forward, platform, browser;
const got = []; // what the hostile issuers were asked

before(async () => {
  const login = http.createServer();
  issuer = `http://127.0.0.1:${await listen(login)}`;
  fakes = http.createServer((request, response) => {
    got.push(request.url);
    if (request.url.startsWith('/big')) response.end('x'.repeat(2 << 20));
    else if (request.url.startsWith('/moved')) response.writeHead(302, { Location: '/elsewhere' }).end();
    else if (request.url.startsWith('/mallory')) response.end(JSON.stringify({ issuer, authorization_endpoint: `${issuer}/auth`, token_endpoint: `${bad}/mallory/token` }));
    // /slow: never
  });
  const bad = `http://127.0.0.1:${await listen(fakes)}`;
  // The issuers must know the page's address before its process has a port.
  forward = net.createServer((client) => {
    const server = net.connect(forward.to, '127.0.0.1');
    for (const [from, to] of [[client, server], [server, client]]) from.on('error', () => to.destroy()).on('close', () => to.destroy()).pipe(to);
  });
  const origin = `https://localhost:${await listen(forward)}`;
  provider = new Provider(issuer, {
    clients: [{
      client_id: 'page', client_secret: 'a secret: with/signs', grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: [`${origin}/ui/signed-in`], post_logout_redirect_uris: [`${origin}/ui`],
    }],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) }),
    claims: { openid: ['sub', 'org', 'groups'] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    rotateRefreshToken: true, // the second use of a refresh token ends the session at the issuer
    ttl: { IdToken: () => tokens.ttl, AccessToken: 300, AuthorizationCode: 60, RefreshToken: 3600, Session: 3600, Interaction: 600, Grant: 3600 },
    cookies: { keys: ['k'] },
  });
  login.on('request', provider.callback());
  const common = (name, more = '') => `
  audience: escapement
  jwks_url: ${issuer}/jwks
  tenant_claim: [org]
  role_claim: [groups]
  roles: {sre: admin, all: viewer}
  sign_in: {client_id: page, origin: '${origin}', name: ${name}${more}}
`;
  platform = await Platform.start({ issuers: (home) => `issuers:
- issuer: ${issuer}${common('Example', `, client_secret_file: ${home('client.secret', 'a secret: with/signs\n')}, scopes: [offline_access], parameters: {prompt: consent}`)}
${['slow', 'big', 'moved', 'mallory'].map((name) => `- issuer: ${bad}/${name}${common(name)}`).join('')}` });
  forward.to = Number(platform.address.split(':')[1]);
  platform.origin = origin;
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  await platform?.stop();
  for (const server of [forward, fakes]) server?.close();
  process.exit(); // connections of the provider and of slow answers
});

const open = (options = {}) => openPage(browser, platform, { signIn: false, ...options });
/** Consents as `who`, who has no session at the issuer yet. */
async function consent(page, who) {
  await page.waitForURL(`${issuer}/interaction/**`);
  if (who) {
    await page.locator('[name=login]').fill(who);
    await page.locator('[name=password]').fill('any');
    await page.getByRole('button').click();
  }
  await page.getByRole('button', { name: 'Continue' }).click();
}
async function signIn(page, who) {
  await page.getByRole('link', { name: 'Sign in with Example' }).click();
  await consent(page, who);
}
const cookie = async (page, name = '__Host-escapement') => (await page.context().cookies(platform.origin)).find((each) => each.name === name);
const sessionOf = (value) => platform.raw('GET', '/ui/session', { headers: { Cookie: `__Host-escapement=${value}` } });
const begin = async (query = '') => {
  const answer = await platform.raw('GET', `/ui/sign-in?issuer=${encodeURIComponent(issuer)}${query}`);
  return { cookie: answer.headers['set-cookie'][0].split(';')[0], state: new URL(answer.headers.location).searchParams.get('state'), answer };
};
const finish = (query, own) => platform.raw('GET', `/ui/signed-in?${new URLSearchParams(query)}`, { headers: own ? { Cookie: own } : {} });

test('a person signs in, sees the view that was asked for, and stays signed in', { timeout: 60000 }, async () => {
  const page = await open({ where: '/ui/default/schedules?state=PAUSED' });
  await page.getByRole('link', { name: 'Sign in with Example' }).waitFor();
  assert.equal(await page.getByLabel('API key').count(), 1);
  assert.deepEqual(await axe(page), []);
  await signIn(page, 'ada');
  await page.waitForURL(`${platform.origin}/ui/default/schedules?state=PAUSED`);
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  assert.equal(await page.locator('header .tenant').textContent(), 'default');
  assert.equal(await page.locator('header .who').getAttribute('title'), `jwt/${issuer}/ada`);
  assert.equal(await page.locator('header .who').textContent(), 'Admin');
  const { httpOnly, secure, sameSite, value } = await cookie(page);
  assert.deepEqual({ httpOnly, secure, sameSite }, { httpOnly: true, secure: true, sameSite: 'Strict' });
  assert.ok(value.startsWith('page_') && value.length <= 3800, `${value.length} bytes`);
  assert.equal(await cookie(page, '__Host-escapement-sign-in'), undefined);
  assert.equal(await page.evaluate(() => document.cookie), '');
  await page.reload();
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  // Another tenant does not exist for her, and she may change her own.
  assert.equal((await page.evaluate(async () => (await fetch('/v1/tenants/other/schedules')).status)), 404);
  const made = await page.evaluate(async () => (await fetch('/v1/tenants/default/policies?policyId=hers', { method: 'POST', headers: { 'X-Escapement-CSRF': '1', 'Content-Type': 'application/json' }, body: '{"maxConcurrent":"1"}' })).status);
  assert.equal(made, 200);
  const audit = await platform.api('GET', '/tenants/default/auditEntries');
  assert.ok(audit.auditEntries.some((entry) => entry.principal === `jwt/${issuer}/ada`), JSON.stringify(audit.auditEntries));
  await page.context().close();
});

test('a role that is too low cannot act', { timeout: 60000 }, async () => {
  await platform.schedule('nightly', { cron: '0 2 * * *', target: { http: { uri: 'http://127.0.0.1:1/' } } });
  const page = await open({ where: '/ui/default/schedules/nightly' });
  await signIn(page, 'vera');
  await page.getByRole('heading', { name: 'nightly', exact: true }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Pause nightly' }).count(), 0);
  const answer = await page.evaluate(async () => (await fetch('/v1/tenants/default/schedules/nightly:pause', { method: 'POST', headers: { 'X-Escapement-CSRF': '1', 'Content-Type': 'application/json' }, body: '{}' })).json());
  assert.equal(answer.error.details[0].reason, 'ROLE_TOO_LOW');
  await page.context().close();
});

test('an account without a role is told so', { timeout: 60000 }, async () => {
  const page = await open({ where: '/ui/default/schedules' });
  await signIn(page, 'eve');
  await page.getByText('Your account has no role here').waitFor();
  await until(() => new URL(page.url()).search === '', 'the address says nothing of it');
  assert.equal(await cookie(page), undefined);
  assert.deepEqual(await axe(page), []);
  await page.context().close();
});

test('a session is renewed before it ends, by one tab for all', { timeout: 60000 }, async () => {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const tabs = [await context.newPage(), await context.newPage()];
  const [page, other] = tabs;
  await page.clock.install(); // of both
  tokens.ttl = 30; // the session is to be renewed at once: the page waits ten seconds
  await page.goto(`${platform.origin}/ui/default/schedules`);
  await signIn(page, 'ada');
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  await other.goto(`${platform.origin}/ui/default/policies`);
  await other.getByRole('heading', { name: 'Policies', exact: true }).waitFor();
  const first = (await cookie(page)).value;
  const renewals = [];
  for (const tab of tabs) tab.on('response', (response) => response.url().endsWith('/ui/session/renewal') && renewals.push(response.status()));
  tokens.ttl = 300;
  await page.clock.fastForward(11000);
  await until(async () => (await cookie(page)).value !== first, 'another session');
  // The other tab has asked, too, and found the new session.
  await Promise.all(tabs.map((tab) => tab.evaluate(() => navigator.locks.request('escapement-session', () => {}))));
  assert.deepEqual(renewals, [200]);
  assert.equal((await sessionOf((await cookie(page)).value)).status, 200);
  await page.reload();
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  await context.close();
});

test('a session that has ended while nobody looked is renewed', { timeout: 60000 }, async () => {
  const page = await open({ where: '/ui/default/schedules' });
  tokens.ttl = 2;
  try {
    await signIn(page, 'ada');
    await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
    const { value } = await cookie(page);
    await until(async () => (await sessionOf(value)).status === 401, 'the end of the session');
    // A call of the page that the server refuses is made again.
    await page.getByRole('link', { name: 'Policies', exact: true }).click();
    await page.getByRole('heading', { name: 'Policies', exact: true }).waitFor();
    await until(async () => (await cookie(page)).value !== value, 'another session');
    assert.equal(await page.getByLabel('API key').count(), 0);
    // Also when the page is opened with a session that has ended.
    const context = page.context();
    await page.close();
    tokens.ttl = 300;
    await until(async () => (await sessionOf((await cookie(page)).value)).status === 401, 'the end of the next session');
    const later = await context.newPage();
    await later.goto(`${platform.origin}/ui/default/policies`);
    await later.getByRole('heading', { name: 'Policies', exact: true }).waitFor();
    assert.equal((await sessionOf((await cookie(page)).value)).status, 200);
  } finally {
    tokens.ttl = 300;
  }
  await page.context().close();
});

test('a sign-out ends both sessions', { timeout: 60000 }, async () => {
  const page = await open({ where: '/ui/default/schedules' });
  await signIn(page, 'ada');
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL(`${issuer}/session/end**`);
  assert.ok(new URL(page.url()).searchParams.get('id_token_hint'), page.url());
  await page.getByRole('button', { name: /Yes/ }).click();
  await page.waitForURL(`${platform.origin}/ui`);
  await page.getByLabel('API key').waitFor();
  assert.equal(await cookie(page), undefined);
  await page.getByRole('link', { name: 'Sign in with Example' }).click();
  await page.locator('[name=password]').waitFor(); // the issuer no longer knows her
  await page.context().close();
});

test('keys sign in as before', { timeout: 60000 }, async () => {
  const page = await openPage(browser, platform, { where: '/ui/default/schedules' });
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  assert.equal((await cookie(page)).value, platform.key);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('API key').waitFor();
  assert.ok(page.url().startsWith(platform.origin));
  page.check();
  await page.context().close();
});

test('a link leads only to views of the page after the sign-in', { timeout: 60000 }, async () => {
  const page = await open({ where: '/ui/default/schedules' });
  await signIn(page, 'ada');
  await page.getByRole('heading', { name: 'Schedules', exact: true }).waitFor();
  for (const evil of ['//evil.example/', '/\\evil.example', '\\\\evil.example', 'https://evil.example/ui', '/v1/tenants', '/ui/../v1/tenants', '/ui%0d%0aSet-Cookie:x', 'javascript:alert(1)']) {
    await page.goto(`${platform.origin}/ui/sign-in?issuer=${encodeURIComponent(issuer)}&return=${encodeURIComponent(evil)}`);
    await consent(page);
    await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
    assert.equal(page.url(), `${platform.origin}/ui/default`, evil);
  }
  await page.context().close();
});

test('the link of an attacker signs nobody in', { timeout: 60000 }, async () => {
  // The attacker keeps the cookie, and sends the victim the address with the code, which is not used.
  const { cookie: own, answer: begun } = await begin();
  const attacker = await open();
  let link;
  attacker.on('request', (request) => request.url().includes('/ui/signed-in') && (link = request.url()));
  await attacker.goto(begun.headers.location);
  await consent(attacker, 'ada');
  await attacker.getByText('This sign-in was not begun in this browser').waitFor();
  const victim = await open({ where: '/ui/default/schedules' });
  await victim.getByLabel('API key').waitFor();
  for (const pending of [false, true]) {
    if (pending) await victim.goto(`${platform.origin}/ui/sign-in?issuer=${encodeURIComponent(issuer)}`);
    const hers = (await cookie(victim, '__Host-escapement-sign-in'))?.value;
    await victim.goto(link);
    await victim.getByText('This sign-in was not begun in this browser').waitFor();
    assert.equal(await cookie(victim), undefined);
    assert.equal((await cookie(victim, '__Host-escapement-sign-in'))?.value, hers); // her own sign-in goes on
  }
  // The code was good all the time.
  const answer = await platform.raw('GET', link.slice(platform.origin.length), { headers: { Cookie: own } });
  assert.equal(answer.headers.location, '/ui');
  assert.ok(answer.headers['set-cookie'].some((each) => each.startsWith('__Host-escapement=page_')));
  await victim.context().close();
  await attacker.context().close();
});

test('answers that belong to no sign-in are refused', async () => {
  const [mine, others] = [await begin(), await begin()];
  for (const [query, own] of [[{ code: 'x', state: mine.state }, ''], [{ code: 'x' }, mine.cookie], [{ code: 'x', state: 'wrong' }, mine.cookie], [{ code: 'x', state: others.state }, mine.cookie], [{ code: 'x', state: mine.state, iss: 'https://other.example' }, mine.cookie], [{ code: 'x', state: mine.state }, mine.cookie]]) {
    const answer = await finish(query, own);
    assert.equal(answer.status, 302);
    // The provider says who answers, so an answer without `iss` is not its own.
    assert.equal(answer.headers.location, '/ui?sign_in=state', JSON.stringify(query));
    assert.ok(!(answer.headers['set-cookie'] ?? []).some((each) => /^(__Host-)?escapement=/.test(each)));
  }
});

test('errors of the issuer are not shown as they are', { timeout: 60000 }, async () => {
  const { cookie: own, state } = await begin('&return=/ui/default/policies%3Fq%3D1');
  const answer = await finish({ error: '<script>window.hacked=1</script>', error_description: '<b>x</b>', state, iss: issuer }, own);
  assert.equal(answer.headers.location, '/ui/default/policies?q=1&sign_in=refused');
  assert.doesNotMatch(answer.text + JSON.stringify(answer.headers), /script|<b>/);
  const page = await open({ where: answer.headers.location });
  await page.getByText('The sign-in was refused').waitFor();
  assert.equal(page.url(), `${platform.origin}/ui/default/policies?q=1`);
  await page.goto(`${platform.origin}/ui/default?sign_in=${encodeURIComponent('<img src=x onerror="window.hacked=1">')}`);
  await page.getByLabel('API key').waitFor();
  assert.equal(await page.locator('img').count(), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  page.check();
  await page.context().close();
});

test('issuers that are slow, large, moved or lie do not hold up the page', { timeout: 60000 }, async () => {
  const { issuers } = JSON.parse((await platform.raw('GET', '/ui/issuers')).text);
  assert.deepEqual(issuers.map(({ name }) => name), ['Example', 'slow', 'big', 'moved', 'mallory']);
  let answered = false;
  const answers = Promise.all(issuers.slice(1).map((each) => platform.raw('GET', `/ui/sign-in?issuer=${encodeURIComponent(each.issuer)}`))).finally(() => (answered = true));
  await until(() => got.some((url) => url.startsWith('/slow')), 'the call to the slow issuer');
  assert.equal((await platform.raw('GET', '/ui/session')).status, 401);
  assert.ok((await begin()).state);
  assert.equal(answered, false); // nobody waits for the slow issuer
  for (const answer of await answers) assert.equal(answer.headers.location, '/ui?sign_in=unavailable');
  assert.ok(!got.includes('/elsewhere'));
  const unknown = await platform.raw('GET', '/ui/sign-in?issuer=https%3A%2F%2Fevil.example');
  assert.equal(unknown.headers.location, '/ui?sign_in=unavailable');
});

// The last one: key sign-ins from this address must wait, too.
test('a code that the issuer does not know is refused, and then the address must wait', async () => {
  const seen = [];
  for (let i = 0; i < 12; ++i) {
    const { cookie: own, state } = await begin();
    seen.push((await finish({ code: `guess${i}`, state, iss: issuer }, own)).headers.location);
  }
  assert.equal(seen[0], '/ui?sign_in=refused');
  assert.equal(seen.at(-1), '/ui?sign_in=wait');
  const audit = await platform.api('GET', '/tenants/-/auditEntries');
  assert.ok(audit.auditEntries.some((entry) => entry.method === 'SignIn'), JSON.stringify(audit.auditEntries.slice(0, 3)));
});
