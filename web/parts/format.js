// Times, durations, counts and names as people read them.
import { html } from './view.js';

/** What the browser keeps of a choice. @param {string} name @param {string} otherwise */
export function remembered(name, otherwise) {
  try {
    return localStorage.getItem(name) ?? otherwise;
  } catch {
    return otherwise; // the browser denies storage
  }
}
/** @param {string} name @param {string} choice */
export function remember(name, choice) {
  try {
    localStorage.setItem(name, choice);
  } catch {} // the browser denies storage, or it is full
}
/** Whether times are shown in the browser's zone or in UTC. */
export const zone = { mode: remembered('zone', 'local') };
/** @param {string} mode */
export function setZone(mode) {
  zone.mode = mode;
  formats.clear();
  remember('zone', mode);
}
export const zoneName = () => (zone.mode === 'utc' ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone);

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();
/** @param {string} key @param {Intl.DateTimeFormatOptions} options @param {string} [locale] the browser's unless given */
function format(key, options, locale) {
  let made = formats.get(key);
  if (!made) {
    made = new Intl.DateTimeFormat(locale, { timeZone: zoneName(), ...options });
    formats.set(key, made);
  }
  return made;
}

/** @type {Intl.DateTimeFormatOptions} */
const DAY = { day: 'numeric', month: 'short', year: 'numeric' };
/** @type {Intl.DateTimeFormatOptions} */
const CLOCK = { hour: '2-digit', minute: '2-digit' };
/** @type {Intl.DateTimeFormatOptions} */
const TIME = { ...DAY, ...CLOCK, second: '2-digit' };
const CHANGES_MS = [-7200000, -3600000, -1800000, 1800000, 3600000, 7200000]; // by so much clocks change

/** "26 Nov 2026, 14:05:00". A time that clocks repeat has its offset behind it: "…, 02:30:00 GMT+1". @param {string|number|Date} time @param {boolean} [exact] with milliseconds, if it has some */
export function timeText(time, exact) {
  const at = new Date(time);
  if (exact && at.getMilliseconds()) return format('exact', { ...TIME, fractionalSecondDigits: 3 }).format(at);
  const text = format('time', TIME).format(at);
  const twice = CHANGES_MS.some((ms) => format('time', TIME).format(at.getTime() + ms) === text);
  return twice ? format('offset', { ...TIME, timeZoneName: 'shortOffset' }).format(at) : text;
}
/** "14:05" @param {string|number|Date} time */
export const clockText = (time) => format('clock', CLOCK).format(new Date(time));
/** "26 Nov 2026" @param {string|number|Date} time */
export const dayText = (time) => format('day', DAY).format(new Date(time));
/** "26 Nov" @param {number} time */
export const dateText = (time) => format('date', { day: 'numeric', month: 'short' }).format(time);
/** A time by the clocks of another place, as the server writes it ("2026-11-26T14:05:00.5+01:00"), in the page's format; with the name of that place, or else its offset, if these clocks are not those of the page. @param {string} civil @param {string} [place] */
export function civilText(civil, place) {
  const [, clocks = '', fraction = '', offset = ''] = /^(\d{4}-\d\d-\d\dT[\d:]{8})(\.\d{1,3})?\d*(Z|[+-]\d\d:\d\d)?$/.exec(civil) ?? [];
  if (!clocks) return civil;
  const parts = format('civil', { ...TIME, timeZone: 'UTC' }).formatToParts(Date.parse(`${clocks}Z`));
  const text = parts.map(({ type, value }) => (type === 'second' && Number(fraction) ? value + fraction : value)).join('');
  return !offset || inputOf(civil) === clocks.slice(0, 16) ? text : `${text} ${place ?? `UTC${offset.replace('Z', '')}`}`;
}
/** A sentence of the server, with its times in the page's format. @param {string} text */
export const withTimes = (text) => text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (time) => timeText(time));
/** When a run was due, by its id: "20261130T144000-0-America~New_York", or "20261130T193621.414063Z" if somebody began it. @param {string} id */
export function occurrenceText(id) {
  const [, day, clocks, place = 'UTC'] = /^(\d{8})T(\d{6})(?:\.\d+)?(?:Z|-\d-(.+))$/.exec(id) ?? [];
  if (!day) return id;
  const civil = `${day.replace(/(..)(..)$/, '-$1-$2')}T${clocks.replace(/..(?!$)/g, '$&:')}`;
  const zone_ = place.replace(/~/g, '/');
  if (zone_ === 'UTC') return timeText(`${civil}Z`);
  return `${civilText(civil)}${zone_ === zoneName() ? '' : ` ${zone_}`}`;
}

/** A time by the clocks of the page: "2026-11-26T14:05", as inputs of the type datetime-local have it. @param {string|number|Date} time */
export function inputOf(time) {
  // The Swedish form is that of ISO 8601.
  return format('input', { year: 'numeric', month: '2-digit', day: '2-digit', ...CLOCK, hourCycle: 'h23' }, 'sv').format(new Date(time)).replace(' ', 'T');
}
/** The day of a time by the clocks of the page: "2026-11-26". @param {string|number|Date} time */
export const dayOf = (time) => inputOf(time).slice(0, 10);
/** The minute of the hour by the clocks of the page. @param {string|number|Date} time */
export const minuteOf = (time) => Number(inputOf(time).slice(-2));
/**
 * Milliseconds of a time by the clocks of the page ("2026-11-26T14:05"); NaN if it is none. A time that clocks skip is as much later as they skip; of a time that they repeat it is the first.
 * @param {string} text
 */
export const timeOfInput = (text) => Date.parse(`${text}${zone.mode === 'utc' ? 'Z' : ''}`);

/** "3 min", "2 h 5 min" @param {number} seconds */
export function durationText(seconds) {
  if (!Number.isFinite(seconds)) return '';
  const s = Math.abs(seconds);
  if (s === 0) return '0 s';
  if (s < 0.0005) return 'under 1 ms';
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${s < 10 ? Math.round(s * 10) / 10 : Math.round(s)} s`;
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const text = [];
  let rest = Math.round(s);
  for (const [size, unit] of /** @type {[number, string][]} */ (parts)) {
    if (rest >= size) text.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
    if (text.length === 2) break;
  }
  return text.join(' ');
}
/** A duration of a definition, not rounded: "1 d 1 h 1 min 0.5 s" of "90060.5s", "250 ms" of "0.25s". parseDuration reads it. @param {string|undefined} duration */
export function exactText(duration) {
  const nanos = nanosOf(duration);
  const sign = nanos < 0n ? '-' : '';
  let rest = nanos < 0n ? -nanos : nanos;
  const small = /** @type {[bigint, string][]} */ ([[1000000n, 'ms'], [1000n, 'µs'], [1n, 'ns']]).find(([size]) => rest >= size);
  if (small && rest < SECOND) return `${sign}${decimal(rest, small[0])} ${small[1]}`;
  const text = [];
  for (const [size, unit] of /** @type {[bigint, string][]} */ ([[86400n * SECOND, 'd'], [3600n * SECOND, 'h'], [60n * SECOND, 'min']])) {
    if (rest >= size) text.push(`${rest / size} ${unit}`);
    rest %= size;
  }
  if (rest || !text.length) text.push(`${decimal(rest, SECOND)} s`);
  return `${sign}${text.join(' ')}`;
}
const SECOND = 1000000000n;
/** A quotient without rounding; `size` is a power of ten. @param {bigint} number @param {bigint} size */
function decimal(number, size) {
  const digits = String(size).length - 1;
  const fraction = String(number % size).padStart(digits, '0').replace(/0+$/, '');
  return `${number / size}${fraction && `.${fraction}`}`;
}
/** Units as people write them, in nanoseconds. @type {[RegExp, bigint][]} */
const UNITS = [
  [/^(d|days?)$/, 86400n * SECOND], [/^(h|hrs?|hours?)$/, 3600n * SECOND], [/^(m|mins?|minutes?)$/, 60n * SECOND], [/^(s|secs?|seconds?)$/, SECOND],
  [/^(w|weeks?)$/, 604800n * SECOND], [/^(ms|millis|milliseconds?)$/, 1000000n], [/^(us|µs|μs|microseconds?)$/, 1000n], [/^(ns|nanoseconds?)$/, 1n],
];
const DURATION_MAX = 315576000000n * SECOND; // the bound of the API: 10,000 years
/**
 * A duration as people type it ("90s", "1.5 h", "2d", "1h 30m", "250ms") or as the API has it ("5400s"). Rounded to the nanosecond, a half up.
 * @param {string} typed
 * @returns {{value: string, problem: string}} value: as the API has it; problem: what is wrong, in one sentence, or ''
 */
export function parseDuration(typed) {
  const wrong = (/** @type {string} */ problem) => ({ value: '', problem });
  const text = typed.trim().toLowerCase();
  if (text === '') return wrong('');
  if (text.startsWith('-')) return wrong('A time cannot be negative.');
  if (/\d,\d/.test(text)) return wrong('Write decimals with a point, such as 1.5 h.');
  if (/^[\d.]+$/.test(text)) return wrong(`Add a unit: ${text} s, ${text} min, ${text} h or ${text} d.`);
  const part = /(\d+\.?\d*|\.\d+)\s*([a-zµμ]+)[\s,]*/y;
  const used = new Set();
  let nanos = 0n;
  while (part.lastIndex < text.length) {
    const found = part.exec(text);
    if (!found) return wrong(EXAMPLES);
    const [, number, name] = found;
    const size = UNITS.find(([names]) => names.test(name))?.[1];
    if (!size) return wrong(`“${name}” is no unit. Use d, h, min, s or ms.`);
    if (used.has(size)) return wrong(`“${name}” is there twice.`);
    used.add(size);
    const [whole, fraction = ''] = number.split('.');
    const scale = 10n ** BigInt(fraction.length);
    nanos += (BigInt(whole + fraction) * size * 2n + scale) / (scale * 2n);
  }
  return nanos > DURATION_MAX ? wrong('This is too long.') : { value: durationOf(nanos), problem: '' };
}
const EXAMPLES = 'Write a time such as 90 s, 1.5 h or 2 d.';
/** Nanoseconds of a duration of the API; seconds as binary fractions would not be exact. @param {string|undefined} duration */
export function nanosOf(duration) {
  const found = /^(-?)(\d*)(?:\.(\d{0,9})\d*)?s?$/.exec((duration ?? '').trim());
  if (!found) return 0n;
  const nanos = BigInt(found[2] || 0) * 1000000000n + BigInt((found[3] ?? '').padEnd(9, '0'));
  return found[1] ? -nanos : nanos;
}
/** The API's form of nanoseconds: "1.5s". @param {bigint} nanos */
export function durationOf(nanos) {
  const size = nanos < 0n ? -nanos : nanos;
  const fraction = String(size % 1000000000n).padStart(9, '0').replace(/0+$/, '');
  return `${nanos < 0n ? '-' : ''}${size / 1000000000n}${fraction && `.${fraction}`}s`;
}
/** "in 3 min", "2 h ago" @param {string} time */
export function agoText(time) {
  const seconds = (Date.parse(time) - Date.now()) / 1000;
  if (Math.abs(seconds) < 1) return 'now';
  return seconds > 0 ? `in ${durationText(seconds)}` : `${durationText(-seconds)} ago`;
}
/** As the API has it: a time by the clocks of the page ("2026-11-26T14:05"); a text that is none stays for the server to refuse. @param {string} text */
export const isoOfInput = (text) => (Number.isNaN(timeOfInput(text)) ? text : new Date(timeOfInput(text)).toISOString());
/** The time so long after now, as the API has it; undefined without a duration, or beyond the times that there are. @param {string|undefined} duration of the API */
export function timeAfter(duration) {
  const at = new Date(Date.now() + Number(nanosOf(duration) / 1000000n));
  return duration && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined;
}
/** Seconds of a duration of the API: "90s". @param {string|undefined} duration */
export const secondsOf = (duration) => parseFloat(duration ?? '0') || 0;

/** A time with its age. @param {{value?: string, age?: boolean}} props */
export function Time({ value, age = true }) {
  if (!value) return html`<span class="muted">–</span>`;
  return html`<time datetime=${value} title=${value}>${timeText(value)}${age && html` <span class="muted">${agoText(value)}</span>`}</time>`;
}

/** 1234567 → "1,234,567" @param {string|number|undefined} number */
export const count = (number) => Number(number ?? 0).toLocaleString('en-US');
/** "1 event", "5 events" @param {string|number|undefined} number @param {string} noun */
export const counted = (number, noun) => {
  const plural = noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${count(number)} ${Number(number ?? 0) === 1 ? noun : plural}`;
};
/** The begin of a long text, for lists; what it leaves out is said by "…". @param {string} text @param {number} max characters */
export const shortText = (text, max) => (text.length > max ? `${text.slice(0, max - 1).trimEnd()}…` : text);
/** A URI that goes on in a new line behind a "/", and not within its host and port. @param {string} text */
export const pathText = (text) => text.split(/(?<=[^/:]\/)(?=[^/])/).map((part, i) => html`${i > 0 && html`<wbr />`}${part}`);
/** The last part of a resource name. @param {string|undefined} name */
export const idOf = (name) => (name ?? '').split('/').pop() ?? '';
/** "PERMANENTLY_FAILED" → "Permanently failed" @param {string|undefined} text */
export const words = (text) => {
  const lower = (text ?? '').replace(/_/g, ' ').toLowerCase();
  return lower.charAt(0).toUpperCase() + lower.slice(1);
};

/** @param {string|undefined} base64 */
export function bytesOf(base64) {
  return Uint8Array.from(atob((base64 ?? '').replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
}
/** Text of base64 bytes; null if they are no UTF-8. @param {string|undefined} base64 */
export function textOf(base64) {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytesOf(base64));
  } catch {
    return null;
  }
}
/** @param {string} text */
export function base64Of(text) {
  let binary = '';
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}
/** Bytes as people read them: JSON with indents, text, or hexadecimal. @param {string|undefined} base64 */
export function shownBytes(base64) {
  const text = textOf(base64);
  if (text === null) return [...bytesOf(base64)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A schedule's times in short. @param {any} schedule */
export function whenText(schedule) {
  if (schedule.cron) return schedule.cron;
  if (schedule.cronFields) {
    const f = schedule.cronFields;
    const parts = [f.minute, f.hour, f.dayOfMonth || '*', f.month || '*', f.dayOfWeek || '*'];
    // Six fields begin with the second; the year is the seventh.
    const year = f.year && f.year !== '*';
    if (year || (f.second && f.second !== '0')) parts.unshift(f.second || '0');
    if (year) parts.push(f.year);
    return parts.join(' ');
  }
  if (schedule.interval) return `every ${exactText(schedule.interval.every)}`;
  return counted(schedule.times?.length ?? 0, 'instant');
}
/** The same, with the zone of its clocks. @param {{of: any}} props of: a schedule */
export const When = ({ of }) => html`<code>${whenText(of)}</code>${(of.cron || of.cronFields) && html` <span class="muted">${pathText(of.timeZone || 'UTC')}</span>`}`;
/** A target in short: its kind and where it is. @param {any} target @returns {[string, string]} */
export function targetText(target) {
  const [kind, fields] = Object.entries(target ?? {})[0] ?? ['', {}];
  const place = fields.uri ?? fields.queueUrl ?? (fields.topic && `${fields.topic} at ${fields.brokers}`) ?? (fields.to && `${fields.to.join(', ')}`) ?? fields.text ?? '';
  return [kind, String(place)];
}
