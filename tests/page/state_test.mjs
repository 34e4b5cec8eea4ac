// The words and colours of states: what the server has explained decides, and nothing that has failed is green.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callState, eventStates, isLate, keyState, operationState, problemState, runKind, runStates, scheduleState, stateOf, subscriptionState, targetState, tenantState } from '../../web/parts/state.js';

const ago = (seconds) => new Date(Date.now() - seconds * 1000).toISOString();
const words = (states) => states.map((each) => `${each.label} (${each.tone})`).join(', ');

test('a gate that is shut decides what an event waits for', () => {
  const waits = (kind, more = {}) => words(eventStates({ state: 'PENDING', status: 'SCHEDULED', dueTime: ago(5), ...more }, [{ kind }]));
  const expected = {
    NOT_DUE: 'Scheduled (idle)', SCHEDULE_PAUSED: 'Its schedule is paused (warn)', OVERLAP: 'Waits for the run before (idle)', POLICY_PAUSED: 'Its policy is paused (warn)', POLICY_LIMIT: 'Waits for a token (idle)', KEY_LIMIT: 'Waits for a token (idle)',
    POLICY_RATE: 'Waits for its turn (idle)', KEY_RATE: 'Waits for its turn (idle)', BACKPRESSURE: 'Waits, target asked for a pause (warn)', TARGET_DOWN: 'Waits, target is down (warn)', RETRY: 'Failed, will be retried (warn)', NO_OWNER: 'Waits, no process works on it (bad)',
    CLOCK_HELD: 'Waits, the clock is held (bad)', NOT_EMITTED: 'Waits for its emitter (warn)', BEING_SENT: 'Being sent (busy)', HELD_BY_CONSUMER: 'With its consumer (busy)',
  };
  for (const [kind, text] of Object.entries(expected)) assert.equal(waits(kind), text, kind);
  // The first gate counts, and a late event is late.
  assert.equal(words(eventStates({ state: 'PENDING', status: 'FAILED', dueTime: ago(90) }, [{ kind: 'TARGET_DOWN' }, { kind: 'RETRY' }])), 'Waits, target is down (warn), Late (warn)');
});
test('without an explanation the row of an event decides', () => {
  const of = (more) => words(eventStates({ state: 'PENDING', status: 'SCHEDULED', dueTime: ago(5), ...more }));
  assert.equal(of({ dueTime: ago(-5) }), 'Scheduled (idle)');
  assert.equal(of({}), 'Due (idle)');
  assert.equal(of({ dueTime: ago(61) }), 'Due (idle), Late (warn)');
  assert.equal(of({ policy: 'tenants/t/policies/p' }), 'Waits for a token (idle)');
  assert.equal(of({ dueTime: ago(7200), redriveCount: 1 }), 'Due (idle), Redriven after it failed (warn)');
  assert.equal(of({ reason: 'the target asked for a pause until then' }), 'Waits, target asked for a pause (warn)');
  assert.equal(of({ status: 'TARGET_DOWN' }), 'Waits, target is down (warn)');
  assert.equal(of({ status: 'FAILED' }), 'Failed, will be retried (warn)');
  const ended = (more) => words(eventStates({ state: 'ENDED', dueTime: ago(900), ...more }));
  assert.equal(ended({ status: 'COMPLETED', outcome: 'SUCCEEDED' }), 'Completed (good)');
  assert.equal(ended({ status: 'PERMANENTLY_FAILED', outcome: 'FAILED' }), 'Permanently failed (bad)');
  assert.equal(ended({ status: 'NOT_DELIVERED', outcome: 'EXPIRED' }), 'Expired (warn)');
});

test('a run with failed events is not green', () => {
  const run = (more) => ({ nominalTime: ago(5), completeTime: ago(1), eventCount: '4', ...more });
  const of = (more, gates) => words(runStates(run(more), gates));
  assert.equal(of({ state: 'COMPLETED', status: 'COMPLETED', succeededCount: '4' }), 'Completed (good)');
  assert.equal(of({ state: 'COMPLETED', status: 'PERMANENTLY_FAILED', failedCount: '4' }), 'Permanently failed (bad)');
  assert.equal(of({ state: 'COMPLETED', status: 'PERMANENTLY_FAILED', failedCount: '1', succeededCount: '3' }), '1 of 4 failed (bad)');
  assert.equal(of({ state: 'CANCELLED', status: 'PERMANENTLY_FAILED', failedCount: '1', cancelledCount: '3' }), '1 of 4 failed (bad)');
  assert.equal(of({ state: 'COMPLETED', status: 'COMPLETED', succeededCount: '1', expiredCount: '3' }), '3 events not delivered (warn)');
  assert.equal(of({ state: 'SKIPPED', status: 'NOT_DELIVERED', skippedCount: '4' }), 'Skipped (idle)');
  assert.equal(of({ state: 'UPCOMING', status: 'NOT_DELIVERED', completeTime: undefined, nominalTime: ago(-5) }), 'Upcoming (idle)');
  const active = (more, gates) => of({ state: 'ACTIVE', status: 'IN_PROGRESS', completeTime: undefined, ...more }, gates);
  assert.equal(active({}), 'In progress (busy)');
  assert.equal(active({ failedCount: '1' }), '1 of 4 failed (bad)');
  assert.equal(active({ grantedCount: '1' }), 'Waits for tokens (idle)');
  assert.equal(active({ grantedCount: '4' }), 'In progress (busy)');
  assert.equal(active({}, [{ kind: 'POLICY_PAUSED' }]), 'Its policy is paused (warn)');
  assert.equal(active({ nominalTime: ago(61) }), 'In progress (busy), Late (warn)');
  assert.equal(active({ nominalTime: ago(61), awaitsLaunch: true }), 'Waits for the run before (idle)');
  assert.equal(active({ window: { state: 'AT_RISK' }, nominalTime: ago(900) }), 'In progress (busy), At risk (warn)');
  assert.equal(isLate(run({ state: 'COMPLETED', nominalTime: ago(62) })), true);
  const kinds = [{ status: 'COMPLETED', failedCount: '0' }, { status: 'PERMANENTLY_FAILED' }, { status: 'FAILED', state: 'ACTIVE' }, { status: 'IN_PROGRESS', state: 'ACTIVE', failedCount: '1' }, { status: 'IN_PROGRESS', state: 'ACTIVE' }, { status: 'NOT_DELIVERED', state: 'SKIPPED' }];
  assert.deepEqual(kinds.map((each) => Object.values(runKind(run({ state: 'COMPLETED', ...each }))).join(' ')), ['completed good', 'failed bad', 'being retried warn', 'failed bad', 'active busy', 'not delivered idle']);
});

test('a schedule that fails, a target of which all attempts fail and work of which nothing was done are not green', () => {
  assert.equal(words([scheduleState({ state: 'ENABLED' })]), 'Enabled (good)');
  assert.equal(words([scheduleState({ state: 'ENABLED', lastOutcome: 'SUCCEEDED', succeededCount: '3', failedCount: '9' })]), 'Enabled (good)');
  assert.equal(words([scheduleState({ state: 'ENABLED', lastOutcome: 'FAILED', failedCount: '3' })]), 'Always failed (bad)');
  assert.equal(words([scheduleState({ state: 'ENABLED', lastOutcome: 'FAILED', failedCount: '3', succeededCount: '1' })]), 'Last failed (warn)');
  assert.equal(words([scheduleState({ state: 'PAUSED', lastOutcome: 'FAILED' })]), 'Paused (warn)');
  assert.equal(words([scheduleState({ state: 'ENABLED' }, [{ kind: 'NO_OWNER' }])]), 'Waits, no process works on it (bad)');
  assert.equal(words([scheduleState({ state: 'ENABLED' }, [{ kind: 'OVERLAP' }])]), 'Waits for the run before (idle)');
  assert.equal(words([scheduleState({ state: 'ENABLED', lastOutcome: 'FAILED' }, [{ kind: 'NOT_DUE' }])]), 'Always failed (bad)');
  assert.equal(words([targetState({ state: 'CLOSED', attemptCount: '9', errorRate: 1 })]), 'Fails (bad)');
  assert.equal(words([targetState({ state: 'CLOSED', attemptCount: '9', errorRate: 0.5 })]), 'Fails at times (warn)');
  assert.equal(words([targetState({ state: 'CLOSED', attemptCount: '9' })]), 'Works (good)');
  assert.equal(words([targetState({ state: 'CLOSED' })]), 'No attempt (idle)');
  assert.equal(words([targetState({ state: 'OPEN', attemptCount: '9' })]), 'Down (bad)');
  assert.equal(words([operationState({ state: 'SUCCEEDED', doneCount: '2' })]), 'Succeeded (good)');
  assert.equal(words([operationState({ state: 'SUCCEEDED', doneCount: '2', failedCount: '1' })]), 'Partly done (warn)');
  assert.equal(words([operationState({ state: 'SUCCEEDED', failedCount: '1' })]), 'Nothing done (bad)');
  assert.equal(words([operationState({ state: 'FAILED' })]), 'Failed (bad)');
  assert.equal(words([keyState({ expireTime: ago(1) })]), 'Expired (idle)');
  assert.equal(words([callState({ result: 'PERMISSION_DENIED', reason: 'ROLE' })]), 'ROLE (bad)');
  assert.equal(words([tenantState({ state: 'SUSPENDED' })]), 'Suspended (warn)');
  assert.equal(words([stateOf('SOME_NEW_STATE')]), 'Some new state (idle)');
});

test('problems of a subscription are not green, and one without them only while it is checked', () => {
  assert.equal(words(['FAILED', 'LATE', 'MISSED', 'PAUSED', 'AT_RISK', 'NEW_KIND'].map((kind) => problemState({ kind }))), 'Failed (bad), Late (warn), Missed (bad), Paused (warn), At risk (warn), New kind (idle)');
  const of = (more) => words([subscriptionState({ checkTime: ago(9), ...more })]);
  assert.equal(of({}), 'All is well (good)');
  assert.equal(of({ problemCount: '0' }), 'All is well (good)');
  assert.equal(of({ problemCount: '1' }), '1 problem (bad)');
  assert.equal(of({ problemCount: '2', checkTime: undefined }), '2 problems (bad)');
  assert.equal(of({ checkTime: undefined }), 'Not checked yet (idle)');
  assert.equal(of({ checkTime: ago(601) }), 'Not checked lately (warn)');
});
