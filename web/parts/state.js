// The words, the colour and the sign of every state, for all badges and marks. If the server has explained why something waits,
// its gates decide; otherwise the row does. Pure: values in, words out.
import { count, counted } from './format.js';

/** @typedef {'good'|'busy'|'idle'|'warn'|'bad'} Tone */
/** @typedef {{label: string, tone: Tone, sign: string}} State */

/** @type {Record<Tone, string>} */
export const SIGNS = { good: '✓', busy: '▸', idle: '○', warn: '!', bad: '✕' };
/** @param {string} label @param {Tone} tone @param {string} [sign] @returns {State} */
const state = (label, tone, sign = SIGNS[tone]) => ({ label, tone, sign });

const PAUSED = state('Paused', 'warn', '‖');
const RETRIED = state('Failed, will be retried', 'warn', '↻');
const TARGET_DOWN = state('Waits, target is down', 'warn', '↯');
const TOKEN = state('Waits for a token', 'idle', '◔');
const RUN_BEFORE = state('Waits for the run before', 'idle', '◔');
const FAILED = state('Permanently failed', 'bad');
export const LATE = state('Late', 'warn', '◷');
const REDRIVEN = state('Redriven after it failed', 'warn', '↻');
export const AT_RISK = state('At risk', 'warn', '△');
export const OVERDUE = state('Overdue', 'warn', '◷');
export const OVERRIDE = state('Override', 'warn');

/** States by the API's names of them. @type {Record<string, State>} */
const STATES = {
  ENABLED: state('Enabled', 'good'), PAUSED, FINISHED: state('Finished', 'idle', '–'),
  SCHEDULED: state('Scheduled', 'idle'), IN_PROGRESS: state('In progress', 'busy'), COMPLETED: state('Completed', 'good'), FAILED: RETRIED, PERMANENTLY_FAILED: FAILED, NOT_DELIVERED: state('Not delivered', 'idle', '–'), TARGET_DOWN,
  SUCCEEDED: state('Succeeded', 'good'), EXPIRED: state('Expired', 'warn', '◷'), CANCELLED: state('Cancelled', 'idle', '–'), SKIPPED: state('Skipped', 'idle', '–'),
  UPCOMING: state('Upcoming', 'idle'), ACTIVE: state('Active', 'busy'), RUNNING: state('Running', 'busy'), PENDING: state('Pending', 'idle'),
  CLOSED: state('Works', 'good'), OPEN: state('Down', 'bad', '↯'), HALF_OPEN: state('Probing', 'warn', '↯'),
  ACCEPTED: state('Accepted', 'good'), REJECTED: state('Rejected', 'bad'), UNKNOWN: state('Unknown', 'warn', '?'), OK: state('OK', 'good'),
  SUSPENDED: state('Suspended', 'warn', '‖'), REVOKED: state('Revoked', 'idle', '–'),
};
/** A state that the API names, without more that is known of it. `final`: FAILED stands for an end. @param {string} name @param {boolean} [final] */
export function stateOf(name, final) {
  if (name === 'FAILED' && final) return state('Failed', 'bad');
  return STATES[name] ?? state(name ? name.charAt(0) + name.slice(1).replace(/_/g, ' ').toLowerCase() : '–', 'idle', '');
}

/** What a shut gate means for an event, or for a schedule's next occurrence. @type {Record<string, State>} */
const GATES = {
  NOT_DUE: STATES.SCHEDULED, SCHEDULE_PAUSED: state('Its schedule is paused', 'warn', '‖'), OVERLAP: RUN_BEFORE, POLICY_PAUSED: state('Its policy is paused', 'warn', '‖'),
  POLICY_LIMIT: TOKEN, KEY_LIMIT: TOKEN, POLICY_RATE: state('Waits for its turn', 'idle', '◔'), KEY_RATE: state('Waits for its turn', 'idle', '◔'),
  BACKPRESSURE: state('Waits, target asked for a pause', 'warn', '‖'), TARGET_DOWN, RETRY: RETRIED, NO_OWNER: state('Waits, no process works on it', 'bad'), CLOCK_HELD: state('Waits, the clock is held', 'bad', '◷'),
  NOT_EMITTED: state('Waits for its emitter', 'warn', '◔'), BEING_SENT: state('Being sent', 'busy'), HELD_BY_CONSUMER: state('With its consumer', 'busy'), FINISHED: STATES.FINISHED,
};
/** The state that the first of these gates stands for; undefined without one that is known. @param {any[]|undefined} gates */
const ofGates = (gates) => GATES[gates?.[0]?.kind ?? ''];

/** Something that has not ended so long after its time is late. */
export const LATE_SECONDS = 60;
/** @param {string} time */
const secondsSince = (time) => (Date.now() - Date.parse(time)) / 1000;

/** One event. @param {any} event @param {any[]} [gates] of ExplainEvent @returns {State[]} */
export function eventStates(event, gates) {
  if (event.state === 'ENDED') return [event.status === 'NOT_DELIVERED' ? stateOf(event.outcome, true) : stateOf(event.status)];
  const past = secondsSince(event.dueTime);
  const waits = event.status === 'SCHEDULED' && past > 0;
  const shown = ofGates(gates) ?? (!waits ? stateOf(event.status) : event.reason ? GATES.BACKPRESSURE : event.policy || event.limits?.length ? TOKEN : state('Due', 'idle', '◔'));
  // The time of a redriven event went by before somebody redrove it.
  return Number(event.redriveCount) > 0 ? [shown, REDRIVEN] : past > LATE_SECONDS ? [shown, LATE] : [shown];
}

/** Seconds from a run's time to its end, or to now. @param {any} run */
export const runSeconds = (run) => ((run.completeTime ? Date.parse(run.completeTime) : Date.now()) - Date.parse(run.nominalTime)) / 1000;
/** A run with a window is late by its window. @param {any} run */
export const isLate = (run) => (run.window ? run.window.state === 'LATE' : run.state !== 'SKIPPED' && runSeconds(run) > LATE_SECONDS);
/** True until all its events have ended. @param {any} run */
export const isOpen = (run) => run.state === 'ACTIVE' || run.state === 'UPCOMING';
/** @param {any} run */
export const endedCount = (run) => ['succeeded', 'failed', 'skipped', 'cancelled', 'expired'].reduce((sum, kind) => sum + Number(run[`${kind}Count`] ?? 0), 0);
/** Events of a throttled run that have no token yet. @param {any} run */
export const tokenlessCount = (run) => ['granted', 'cancelled', 'expired', 'skipped'].reduce((rest, kind) => rest - Number(run[`${kind}Count`] ?? 0), Number(run.eventCount ?? 0));

/** The result of a run. @param {any} run @param {any[]} [gates] of ExplainEvent of the event that waits longest @returns {State} */
function runResult(run, gates) {
  const all = Number(run.eventCount ?? 0);
  const failed = Number(run.failedCount ?? 0);
  if (run.state === 'ACTIVE') {
    const waits = run.awaitsLaunch ? RUN_BEFORE : ofGates(gates) ?? (Number(run.grantedCount) > 0 && tokenlessCount(run) > 0 ? state('Waits for tokens', 'idle', '◔') : undefined);
    if (failed > 0) return state(`${count(failed)} of ${count(all)} failed`, 'bad');
    return waits && waits !== STATES.SCHEDULED ? waits : stateOf(run.status);
  }
  if (failed > 0) return failed < all ? state(`${count(failed)} of ${count(all)} failed`, 'bad') : FAILED;
  if (run.state === 'CANCELLED') return STATES.CANCELLED;
  if (run.state === 'SKIPPED') return STATES.SKIPPED;
  if (run.state === 'UPCOMING') return STATES.UPCOMING;
  const lost = Number(run.expiredCount ?? 0) + Number(run.cancelledCount ?? 0);
  if (run.status === 'COMPLETED' && lost > 0) return state(`${counted(lost, 'event')} not delivered`, 'warn');
  return stateOf(run.status);
}
/** A run. @param {any} run @param {any[]} [gates] @returns {State[]} */
export const runStates = (run, gates) => [runResult(run, gates), ...(isLate(run) && !run.awaitsLaunch ? [LATE] : []), ...(run.window?.state === 'AT_RISK' ? [AT_RISK] : [])];

/** The kind of a run's result, and the colour of its marks. @param {any} run @returns {{kind: 'completed'|'failed'|'being retried'|'active'|'not delivered', tone: Tone}} */
export function runKind(run) {
  if (Number(run.failedCount) > 0 || run.status === 'PERMANENTLY_FAILED') return { kind: 'failed', tone: 'bad' };
  if (run.status === 'FAILED') return { kind: 'being retried', tone: 'warn' };
  if (run.status === 'COMPLETED') return { kind: 'completed', tone: runResult(run).tone };
  return run.state === 'ACTIVE' ? { kind: 'active', tone: 'busy' } : { kind: 'not delivered', tone: 'idle' };
}

/** A schedule. One whose last event failed is not green. @param {any} schedule @param {any[]} [gates] of ExplainSchedule @returns {State} */
export function scheduleState(schedule, gates) {
  if (schedule.state !== 'ENABLED') return stateOf(schedule.state);
  const held = ofGates(gates);
  if (held && ['bad', 'warn'].includes(held.tone)) return held;
  if (schedule.lastOutcome !== 'FAILED') return held === RUN_BEFORE ? RUN_BEFORE : STATES.ENABLED;
  return Number(schedule.succeededCount ?? 0) > 0 ? state('Last failed', 'warn') : state('Always failed', 'bad');
}

/** @param {any} target failedLast: its last attempts failed, before the last minute */
export const inTrouble = (target) => target.state !== 'CLOSED' || target.errorRate > 0.1 || target.failedLast;
/** A target. The circuit breaker opens late, and not while some attempts succeed: the failures of the last minute count too. @param {any} target @returns {State} */
export function targetState(target) {
  if (target.state !== 'CLOSED') return stateOf(target.state);
  if (target.failedLast) return state('Failed last', 'bad');
  if (!Number(target.attemptCount)) return state('No attempt', 'idle', '–');
  if (!inTrouble(target)) return STATES.CLOSED;
  return target.errorRate === 1 ? state('Fails', 'bad') : state('Fails at times', 'warn');
}

/** Long work. What could not be done is not green. @param {any} operation @returns {State} */
export function operationState(operation) {
  const failed = Number(operation.failedCount ?? 0);
  if (operation.state !== 'SUCCEEDED' || failed === 0) return stateOf(operation.state, true);
  return Number(operation.doneCount ?? 0) > 0 ? state('Partly done', 'warn') : state('Nothing done', 'bad');
}

/** A problem of a subscription. @param {any} problem @returns {State} */
export const problemState = ({ kind }) => ({ FAILED: state('Failed', 'bad'), LATE, MISSED: state('Missed', 'bad', '–'), PAUSED, AT_RISK }[/** @type {string} */ (kind)] ?? stateOf(kind));
const CHECK_SECONDS = 600; // a subscription with a later check than this is not known to be well
/** What a subscription has found. @param {any} subscription @returns {State} */
export function subscriptionState({ problemCount, checkTime }) {
  if (Number(problemCount) > 0) return state(counted(problemCount, 'problem'), 'bad');
  if (!checkTime) return state('Not checked yet', 'idle');
  return secondsSince(checkTime) > CHECK_SECONDS ? state('Not checked lately', 'warn') : state('All is well', 'good');
}

/** An API key. @param {any} key @returns {State} */
export function keyState(key) {
  if (key.revokeTime) return STATES.REVOKED;
  return key.expireTime && Date.parse(key.expireTime) < Date.now() ? state('Expired', 'idle', '◷') : state('Valid', 'good');
}
/** @param {any} tenant @returns {State} */
export const tenantState = (tenant) => (tenant.state === 'SUSPENDED' ? STATES.SUSPENDED : state('Active', 'good'));
/** How a call ended. @param {any} entry of the audit @returns {State} */
export const callState = (entry) => (entry.result === 'OK' ? STATES.OK : state(entry.reason || entry.result, 'bad'));
/** @param {any} store of GetStoreStatus @returns {State} */
export const storeState = (store) => (store.acceptsCommits ? STATES.ACCEPTED : state('Refused: the disk is full', 'bad'));
export const CLOCK_HELD = state('Held: confirm the clock', 'bad', '◷');
/** @param {any} replica @returns {State} */
export const replicaState = (replica) => ({ ...stateOf(replica.role), tone: replica.problem ? 'warn' : replica.role === 'LEADER' ? 'good' : 'idle' });
/** A test event. @param {any} event @returns {State} */
export const testState = (event) => (event.outcome === 'SUCCEEDED' ? state('It arrived', 'good') : event.outcome ? state('It was not accepted', 'bad') : state('Being sent…', 'busy'));
