// Times and durations as the page writes and reads them, in zones whose clocks change at different times of the year.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import * as format from '../../web/parts/format.js';

const MINUTE = 60000;
/** Runs `check` as if the browser were there. */
function inZone(zone, check) {
  process.env.TZ = zone;
  format.setZone('local');
  assert.equal(format.zoneName(), zone);
  check();
}
const at = (time) => Date.parse(time);

// Each change of clocks: its instant, and the clocks one minute before it, at it, and one minute after it.
const CHANGES = [
  ['Pacific/Auckland', '2031-09-27T14:00:00Z', ['2031-09-28T01:59', '2031-09-28T03:00', '2031-09-28T03:01']],
  ['Pacific/Auckland', '2031-04-05T14:00:00Z', ['2031-04-06T02:59', '2031-04-06T02:00', '2031-04-06T02:01']],
  ['Europe/Berlin', '2031-03-30T01:00:00Z', ['2031-03-30T01:59', '2031-03-30T03:00', '2031-03-30T03:01']],
  ['Europe/Berlin', '2031-10-26T01:00:00Z', ['2031-10-26T02:59', '2031-10-26T02:00', '2031-10-26T02:01']],
  ['America/New_York', '2031-03-09T07:00:00Z', ['2031-03-09T01:59', '2031-03-09T03:00', '2031-03-09T03:01']],
  ['America/New_York', '2031-11-02T06:00:00Z', ['2031-11-02T01:59', '2031-11-02T01:00', '2031-11-02T01:01']],
  // In Chile clocks change at midnight: a day begins at 1:00, and another one has 23:30 twice.
  ['America/Santiago', '2031-09-07T04:00:00Z', ['2031-09-06T23:59', '2031-09-07T01:00', '2031-09-07T01:01']],
  ['America/Santiago', '2031-04-06T03:00:00Z', ['2031-04-05T23:59', '2031-04-05T23:00', '2031-04-05T23:01']],
];
for (const [zone, change, clocks] of CHANGES) {
  test(`clocks change in ${zone} at ${change}`, () => inZone(zone, () => {
    const times = [-MINUTE, 0, MINUTE].map((ms) => at(change) + ms);
    assert.deepEqual(times.map(format.inputOf), clocks);
    assert.deepEqual(times.map(format.dayOf), clocks.map((text) => text.slice(0, 10)));
    assert.deepEqual(times.map(format.minuteOf), clocks.map((text) => Number(text.slice(-2))));
    // A time that is typed is the same instant, or for the second of two equal ones the first.
    const back = clocks[1] < clocks[0];
    assert.deepEqual(clocks.map(format.timeOfInput), back ? [times[0], times[1] - 60 * MINUTE, times[2] - 60 * MINUTE] : times);
    // Equal clocks have different texts.
    const texts = [-60, -1, 0, 59].map((minutes) => format.timeText(at(change) + minutes * MINUTE));
    assert.equal(new Set(texts).size, 4);
    assert.equal(texts.filter((text) => /(GMT|UTC)/.test(text)).length, back ? 4 : 0);
  }));
}
test('times that clocks skip are as much later as they skip', () => {
  inZone('Europe/Berlin', () => assert.equal(format.timeOfInput('2031-03-30T02:30'), at('2031-03-30T01:30:00Z')));
  inZone('America/Santiago', () => assert.equal(format.timeOfInput('2031-09-07T00:00'), at('2031-09-07T04:00:00Z'))); // the day's first instant
});

// Midnight, in summer and winter: its instant there.
const MIDNIGHTS = [
  ['Pacific/Auckland', '2031-06-10', '2031-06-09T12:00:00Z'], ['Pacific/Auckland', '2031-12-10', '2031-12-09T11:00:00Z'],
  ['Europe/Berlin', '2031-06-10', '2031-06-09T22:00:00Z'], ['Europe/Berlin', '2031-12-10', '2031-12-09T23:00:00Z'],
  ['America/New_York', '2031-06-10', '2031-06-10T04:00:00Z'], ['America/New_York', '2031-12-10', '2031-12-10T05:00:00Z'],
  ['America/Santiago', '2031-06-10', '2031-06-10T04:00:00Z'], ['America/Santiago', '2031-12-10', '2031-12-10T03:00:00Z'],
];
for (const [zone, day, instant] of MIDNIGHTS) {
  test(`a day begins at midnight in ${zone}: ${day}`, () => inZone(zone, () => {
    const midnight = at(instant);
    const before = new Date(at(`${day}T00:00:00Z`) - 1).toISOString().slice(0, 10);
    assert.deepEqual([midnight - 1, midnight, midnight + 1].map(format.dayOf), [before, day, day]);
    assert.equal(format.timeOfInput(`${day}T00:00`), midnight);
    assert.equal(format.isoOfInput(`${day}T00:00`), new Date(midnight).toISOString());
    assert.notEqual(format.dayText(midnight - 1), format.dayText(midnight));
    format.setZone('utc');
    assert.equal(format.dayOf(midnight), instant.slice(0, 10));
    assert.equal(format.timeOfInput(instant.slice(0, 16)), midnight);
    format.setZone('local');
  }));
}
test('dates are those of the locale', () => {
  const module = new URL('../../web/parts/format.js', import.meta.url);
  for (const [locale, text] of [['de_DE', '26. Nov. 2026, 15:05:00'], ['en_GB', '26 Nov 2026, 15:05:00'], ['en_US', 'Nov 26, 2026, 03:05:00 PM']]) {
    const script = `import { timeText } from '${module}'; console.log(timeText('2026-11-26T14:05:00Z'));`;
    const shown = execFileSync(process.execPath, ['--input-type=module', '-e', script], { env: { ...process.env, TZ: 'Europe/Berlin', LC_ALL: `${locale}.UTF-8` } }).toString().trim();
    assert.equal(shown.replace(/\s/g, ' '), text, locale);
  }
});
test('civil times of a schedule keep their clocks in every zone, with their offset if it is another one', () => {
  const texts = ['Pacific/Auckland', 'America/Santiago', 'Europe/Berlin'].map((zone) => {
    let text;
    inZone(zone, () => (text = format.civilText('2031-03-30T04:30:00.250000000+02:00')));
    return text;
  });
  assert.equal(texts[0], texts[1]);
  assert.equal(texts[0], `${texts[2]} UTC+02:00`);
  assert.match(texts[2], /30.*00\.250?/);
  assert.equal(format.civilText('soon'), 'soon');
});
test('a run has its time in its id, and sentences of the server get the times of the page', () => inZone('Europe/Berlin', () => {
  const same = (shown, text) => assert.equal(shown.replace(/\s/g, ' '), text.replace(/\s/g, ' ')); // spaces differ between parts and the whole
  same(format.occurrenceText('20311130T144000-0-Europe~Berlin'), format.timeText('2031-11-30T13:40:00Z'));
  same(format.occurrenceText('20311130T144000-0-America~New_York'), `${format.timeText('2031-11-30T13:40:00Z')} America/New_York`);
  for (const id of ['20311130T134000-0-UTC', '20311130T134000.414063Z']) same(format.occurrenceText(id), format.timeText('2031-11-30T13:40:00Z'));
  same(format.occurrenceText('some-run'), 'some-run');
  same(format.withTimes('It fires next at 2031-11-30T13:40:00.5Z. 2031 is no time.'), `It fires next at ${format.timeText('2031-11-30T13:40:00Z')}. 2031 is no time.`);
}));
test('a text that is no time stays for the server to refuse', () => assert.equal(format.isoOfInput('some day'), 'some day'));

test('durations are read as people type them', () => {
  const read = {
    '90s': '90s', '1.5 h': '5400s', '2d': '172800s', '1h 30m': '5400s', '250ms': '0.25s', '3600s': '3600s', '1.5s': '1.5s', '0.250s': '0.25s', '1 d 1 h 1 min 1.25 s': '90061.25s', '1h30m': '5400s', '24h0m0s': '86400s',
    ' 10  Minutes ': '600s', '1 hour, 5 minutes': '3900s', '2 weeks': '1209600s', '15 min': '900s', '.5 h': '1800s', '5. s': '5s', '0s': '0s', '1.05 min': '63s', '0.1 min': '6s', '100 µs': '0.0001s', '100us': '0.0001s', '7 ns': '0.000000007s', '30 secs': '30s', '1 Day': '86400s',
  };
  for (const [typed, value] of Object.entries(read)) assert.deepEqual(format.parseDuration(typed), { value, problem: '' }, typed);
  assert.deepEqual(format.parseDuration('  '), { value: '', problem: '' });
});
test('durations are rounded to the nanosecond, a half up', () => {
  const read = { '0.0000000004 s': '0s', '0.0000000005 s': '0.000000001s', '1.4 ns': '0.000000001s', '1.5 ns': '0.000000002s', '0.00000000001 min': '0.000000001s', '0.3333333333 h': '1199.99999988s' };
  for (const [typed, value] of Object.entries(read)) assert.equal(format.parseDuration(typed).value, value, typed);
});
test('a text that is no duration says what is wrong', () => {
  const wrong = { 90: /unit: 90 s, 90 min/, 1.5: /unit/, '-5s': /negative/, '1,5 h': /1\.5 h/, '5 parsecs': /“parsecs” is no unit/, '1h 2h': /twice/, 'soon': /such as 90 s/, '1h soon': /such as/, 's': /such as/, '5s!': /such as/, '9999999999999 d': /too long/, '1.2.3 s': /such as|unit/, 'PT1H': /such as/ };
  for (const [typed, problem] of Object.entries(wrong)) {
    assert.equal(format.parseDuration(typed).value, '', typed);
    assert.match(format.parseDuration(typed).problem, problem, typed);
  }
});
test('what is shown of a duration is read as the same', () => {
  const shown = { '0s': '0 s', '0.25s': '250 ms', '0.0015s': '1.5 ms', '0.000000001s': '1 ns', '0.0001005s': '100.5 µs', '1.5s': '1.5 s', '5400s': '1 h 30 min', '86400s': '1 d', '90061.25s': '1 d 1 h 1 min 1.25 s', '315576000000s': '3652500 d' };
  for (const [value, text] of Object.entries(shown)) {
    assert.equal(format.exactText(value), text);
    assert.equal(format.parseDuration(text).value, value);
  }
});
