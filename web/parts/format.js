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
/** @param {string} key @param {Intl.DateTimeFormatOptions} options */
function format(key, options) {
  let made = formats.get(key);
  if (!made) {
    made = new Intl.DateTimeFormat('en-GB', { timeZone: zoneName(), ...options });
    formats.set(key, made);
  }
  return made;
}

/** "26 Nov 2026, 14:05:00" @param {string|number|Date} time */
export function timeText(time) {
  return format('time', { day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(new Date(time));
}
/** "14:05" @param {string|number|Date} time */
export const clockText = (time) => format('clock', { hour: '2-digit', minute: '2-digit' }).format(new Date(time));
/** "26 Nov 2026" @param {string|number|Date} time */
export const dayText = (time) => format('day', { day: 'numeric', month: 'short', year: 'numeric' }).format(new Date(time));

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
/** A duration of a definition, not rounded: "1 d 1 h 1 min 0.5 s" of "90060.5s". @param {string|undefined} duration */
export function exactText(duration) {
  const nanos = nanosOf(duration);
  let rest = nanos < 0n ? -nanos : nanos;
  const text = [];
  for (const [size, unit] of /** @type {[bigint, string][]} */ ([[86400n, 'd'], [3600n, 'h'], [60n, 'min']])) {
    const number = rest / (size * 1000000000n);
    if (number) text.push(`${number} ${unit}`);
    rest %= size * 1000000000n;
  }
  if (rest || !text.length) text.push(`${durationOf(rest).slice(0, -1)} s`);
  return `${nanos < 0n ? '-' : ''}${text.join(' ')}`;
}
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
/** A target in short: its kind and where it is. @param {any} target @returns {[string, string]} */
export function targetText(target) {
  const [kind, fields] = Object.entries(target ?? {})[0] ?? ['', {}];
  const place = fields.uri ?? fields.queueUrl ?? (fields.topic && `${fields.topic} at ${fields.brokers}`) ?? (fields.to && `${fields.to.join(', ')}`) ?? fields.text ?? '';
  return [kind, String(place)];
}
