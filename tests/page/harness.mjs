// A secured standalone with TLS and credentials, a receiver of its events, and a browser that looks at its page.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, watch, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';

export const require = createRequire(path.resolve('web/package.json'));
export const { chromium } = require('playwright-core');
export const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export const MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
const ZONE = 'Europe/Berlin';
const KEY_ID = '0123456789abcdef';
const folder = () => mkdtempSync(path.join(process.env.TEST_TMPDIR ?? tmpdir(), 'page-'));

/** Answers by path: /ok, /fail, /markup; counts what it got. */
export async function startReceiver() {
  const got = [];
  const state = { broken: true, error: 'the disk is full ' };
  const server = http.createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      got.push({ path: request.url, body: Buffer.concat(chunks).toString(), id: request.headers['ce-id'] });
      const fails = request.url.startsWith('/fail') || (request.url.startsWith('/repairable') && state.broken);
      response.writeHead(fails ? 500 : 200, { 'Content-Type': 'text/plain' });
      response.end(request.url.startsWith('/markup') || fails ? `${fails ? state.error : ''}${MARKUP}` : '{"rows":42,"took":"3 s"}');
    });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${server.address().port}`, got, state, close: () => (server.closeAllConnections(), server.close()) };
}

export class Platform {
  /** `issuers` makes the text of the file of --jwt_issuers; it gets a function that writes a file and returns its path. */
  static async start({ secure = true, issuers } = {}) {
    const self = new Platform();
    const home = folder();
    self.secure = secure;
    self.key = `esc_${KEY_ID}_${'7'.repeat(64)}`;
    const ports = path.join(home, 'ports');
    const flags = [`--data_dir=${home}/data`, '--listen=127.0.0.1:0', '--http_listen=127.0.0.1:0', `--port_file=${ports}`, '--log_level=warning', '--partitions=4', '--queue_shards=2', '--policy_shards=2'];
    if (secure) {
      const tls = path.join(home, 'tls');
      mkdirSync(tls);
      execFileSync(path.resolve('tools/lib/certs'), [tls], { stdio: 'pipe' });
      writeFileSync(path.join(home, 'first.key'), `${self.key}\n`, { mode: 0o600 });
      self.ca = readFileSync(path.join(tls, 'ca.pem'));
      flags.push('--require_credentials', `--bootstrap_key_file=${home}/first.key`, `--tls_cert=${tls}/tls.pem`, `--tls_key=${tls}/tls.key`, `--tls_service_ca=${tls}/ca.pem`);
    }
    if (issuers) {
      const file = (name, text) => (writeFileSync(path.join(home, name), text), path.join(home, name));
      file('issuers.yaml', issuers(file));
      flags.push(`--jwt_issuers=${home}/issuers.yaml`);
    }
    self.process = spawn(process.env.STANDALONE ?? path.resolve('services/standalone/standalone'), flags, { stdio: ['ignore', 'ignore', 'inherit'] });
    await new Promise((done, fail) => {
      self.process.once('error', fail);
      self.process.once('exit', (code) => fail(new Error(`standalone ended with ${code}`)));
      const look = () => existsSync(ports) && readFileSync(ports, 'utf8').includes('http=') && (watcher.close(), done());
      const watcher = watch(home, look);
      look();
    });
    self.address = /http=(\S+)/.exec(readFileSync(ports, 'utf8'))[1].replace('127.0.0.1', 'localhost');
    self.origin = `${secure ? 'https' : 'http'}://${self.address}`;
    await until(async () => (await self.raw('GET', '/v1/tenants', { key: self.key })).status === 200, 'the first key is accepted');
    return self;
  }

  /** One request; the answer with its status and headers. */
  raw(method, where, { body, key, headers = {} } = {}) {
    const bytes = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
    return new Promise((done, fail) => {
      const request = (this.secure ? https : http).request(this.origin + where, {
        method, ca: this.ca, headers: { ...(key && this.secure ? { Authorization: `Bearer ${key}` } : {}), ...(bytes ? { 'Content-Type': 'application/json' } : {}), ...headers },
      }, (response) => {
        const chunks = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('end', () => done({ status: response.statusCode, headers: response.headers, bytes: Buffer.concat(chunks), text: Buffer.concat(chunks).toString() }));
      });
      request.on('error', fail);
      request.end(bytes);
    });
  }

  /** A call as the admin; its answer as an object. */
  async api(method, where, body, key = this.key) {
    const answer = await this.raw(method, `/v1${where}`, { body, key });
    assert.equal(answer.status, 200, `${method} ${where}: ${answer.text}`);
    return JSON.parse(answer.text);
  }

  schedule(id, fields, tenant = 'default') {
    return this.api('POST', `/tenants/${tenant}/schedules?scheduleId=${id}`, { payload: Buffer.from('{"hi":1}').toString('base64'), ...fields });
  }
  run(id, body = {}, tenant = 'default') {
    return this.api('POST', `/tenants/${tenant}/schedules/${id}:trigger`, body);
  }
  ended(name) {
    return until(async () => {
      const run = await this.api('GET', `/${name}`);
      return run.completeTime && run;
    }, `${name} ends`);
  }

  async stop() {
    this.process.removeAllListeners('exit');
    const gone = new Promise((done) => this.process.once('exit', done));
    this.process.kill('SIGTERM');
    await gone;
  }
}

/** Waits until `check` answers something true; at most so many seconds. */
export async function until(check, what, seconds = 20) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((next) => setTimeout(next, 50));
  }
}

export async function openBrowser() {
  return chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run', '--disable-gpu', '--disable-dev-shm-usage'],
  });
}

/** A view of the page, signed in with a key; `init` runs before the page's own code. It fails the test for errors of the page and requests that leave the origin. */
export async function openPage(browser, platform, { key = platform.key, where = '/ui/default', context: options = {}, signIn = platform.secure, init } = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 }, timezoneId: ZONE, locale: 'en-GB', ...options });
  if (init) await context.addInitScript(init);
  // Files of the page that are newer than those in the program.
  if (process.env.PAGE) await context.route('**/ui/files/**', (route) => route.fulfill({ path: path.join(process.env.PAGE, path.basename(new URL(route.request().url()).pathname)) }));
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  const problems = [];
  page.on('pageerror', (error) => problems.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // A refused call is an answer, not a fault of the page.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) problems.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(platform.origin) && !request.url().startsWith('data:')) problems.push(`left the origin: ${request.url()}`);
  });
  await page.goto(platform.origin + where);
  if (signIn) {
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.locator('#navigation').waitFor({ state: 'attached' });
  }
  return Object.assign(page, { problems, check: () => assert.deepEqual(problems, []) });
}

/** Violations of accessibility rules, in short. */
export async function axe(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.target.join(' ')} ${n.any.concat(n.all, n.none).map((c) => c.message).join(', ')}`).slice(0, 3).join(' | ')}`);
}

/** The day before in the zone of the browser, whatever the day is in UTC. */
export const yesterday = () => new Date(Date.now() - 86400000).toLocaleDateString('sv', { timeZone: ZONE });

/** A platform with something of everything: schedules, runs that went well and badly, a policy with holders, dead letters. */
export async function seed(platform, receiver) {
  const http_ = (where, more = {}) => ({ target: { http: { uri: receiver.url + where, ...more } } });
  await platform.schedule('nightly-report', { cron: '30 2 * * *', timeZone: 'Europe/Berlin', displayName: 'Report of the night', labels: { team: 'billing' }, ...http_('/ok') });
  await platform.schedule('billing-sync', { interval: { every: '2s' }, labels: { team: 'billing' }, ...http_('/ok') });
  await platform.schedule('import-orders', { cron: '15 6 * * *', labels: { team: 'shop' }, retryPolicy: { maxAttempts: 1 }, ...http_('/repairable') });
  await platform.schedule('paused-cleanup', { cron: '0 4 * * SUN', ...http_('/ok') });
  await platform.api('POST', '/tenants/default/schedules/paused-cleanup:pause', { reason: 'until the disk is larger' });
  await platform.schedule('markup', { cron: '0 0 1 1 *', displayName: MARKUP, labels: { html: '<b>bold</b>' }, payload: Buffer.from(MARKUP).toString('base64'), retryPolicy: { maxAttempts: 1 }, ...http_('/markup', { headers: { 'X-Note': '<i>note</i>' } }) });
  await platform.api('POST', '/tenants/default/policies?policyId=gentle', { maxConcurrent: '2', displayName: 'Two at once' });
  await platform.api('POST', '/tenants/default/calendars?calendarId=holidays', { displayName: 'Days off', dates: ['2031-12-25'], rules: ['* * SAT,SUN'] });
  await platform.api('POST', '/tenants/default/subscriptions?subscriptionId=on-call', { displayName: 'Those on call', filter: 'name = "nightly-report"', target: { email: { smtpUri: 'smtps://mail.example.org', from: 'escapement@example.org', to: ['ada@example.org'] } } });
  await platform.schedule('batch', { cron: '0 0 1 1 *', eventCount: '12', policy: 'tenants/default/policies/gentle', ...http_('/ok') });
  const from = Date.parse(`${yesterday()}T00:00:00Z`);
  await platform.api('POST', '/tenants/default/schedules/import-orders:backfill', { startTime: new Date(from).toISOString(), endTime: new Date(Math.min(from + 86400000, Date.now())).toISOString() });
  const runs = { markup: (await platform.run('markup')).name, batch: (await platform.run('batch')).name };
  const event = (id, where, more) => platform.api('POST', `/tenants/default/events?eventId=${id}`, { dueTime: new Date().toISOString(), retryPolicy: { maxAttempts: 1 }, ...http_(where), ...more });
  await event('welcome-mail', '/ok');
  await event('lost-invoice', '/fail', { payload: Buffer.from(MARKUP).toString('base64') });
  await event('later-reminder', '/ok', { dueTime: new Date(Date.now() + 7200000).toISOString() });
  await platform.ended(runs.markup);
  await until(async () => (await platform.api('GET', '/tenants/default/deadLetters')).deadLetters?.length >= 2, 'two dead letters');
  return runs;
}
