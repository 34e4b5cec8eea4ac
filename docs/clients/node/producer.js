#!/usr/bin/env node
// Makes a throttled schedule, a one-off event and a batch of events, lists the schedules, and deletes the schedule.
//
// Usage: producer.js [TARGET]
// TARGET receives the events: an HTTP URI (default http://127.0.0.1:8080/) or host:port of a gRPC consumer.
'use strict';

const { randomUUID } = require('node:crypto');
const path = require('node:path');
const { promisify } = require('node:util');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const PARENT = 'tenants/default';

// The folder of Debian's golang-github-gogo-googleapis-dev has google/api and google/rpc.
const definition = protoLoader.loadSync(
  ['schedule', 'event', 'policy'].map((name) => `escapement/v1/${name}_service.proto`),
  { includeDirs: [path.join(__dirname, '../../../proto'), path.join(__dirname, '../../../third_party/googleapis'),
                  '/usr/share/gocode/src/github.com/gogo/googleapis'],
    enums: String, longs: String });
const { ScheduleService, EventService, PolicyService } = grpc.loadPackageDefinition(definition).escapement.v1;

const server = process.env.ESCAPEMENT_SERVER || '127.0.0.1:7410';

// A client whose methods return promises and wait at most 10 s, also for the connection.
function connect(Service) {
  const client = new Service(server, grpc.credentials.createInsecure());
  return new Proxy(client, {
    get: (_, method) => (request) => {
      const metadata = new grpc.Metadata({ waitForReady: true });
      return promisify(client[method]).call(client, request, metadata, { deadline: Date.now() + 10_000 });
    },
  });
}

function eventIn(seconds, target, payload) {
  const due = Date.now() + seconds * 1000;
  return {
    target,
    payload: Buffer.from(JSON.stringify(payload)),
    dueTime: { seconds: Math.floor(due / 1000), nanos: (due % 1000) * 1_000_000 },
  };
}

async function main() {
  const uri = process.argv[2] || 'http://127.0.0.1:8080/';
  const target = uri.startsWith('http') ? { http: { uri } } : { grpc: { uri } };
  const policies = connect(PolicyService);
  const schedules = connect(ScheduleService);
  const events = connect(EventService);

  // A throttling policy: at most two of all its events are with the consumer at once.
  await policies.CreatePolicy({ parent: PARENT, policyId: 'two-at-once', policy: { maxConcurrent: 2 } })
    .catch((error) => { if (error.code !== grpc.status.ALREADY_EXISTS) throw error; });

  const schedule = await schedules.CreateSchedule({
    parent: PARENT,
    scheduleId: 'node-pulse',
    schedule: {
      cron: '*/2 * * * * *', timeZone: 'Europe/Berlin', target, payload: Buffer.from('{"kind": "pulse"}'),
      policy: `${PARENT}/policies/two-at-once`,
    },
  });
  console.log(`created ${schedule.name}, next at ${new Date(schedule.nextTime.seconds * 1000).toISOString()}`);

  // With a requestId the call can be repeated after an error and creates the event only once.
  const event = await events.CreateEvent({
    parent: PARENT, requestId: randomUUID(),
    event: { ...eventIn(1, target, { kind: 'one-off' }), policy: 'two-at-once' } });
  console.log(`created ${event.name}`);

  // A batch creates all its events or none.
  const batch = await events.BatchCreateEvents({
    parent: PARENT, requestId: randomUUID(),
    requests: [0, 1, 2].map((number) => ({ event: eventIn(1, target, { kind: 'batch', number }) })) });
  console.log(`created ${batch.events.length} events`);

  let pageToken = '';
  do {
    const page = await schedules.ListSchedules({ parent: PARENT, pageToken });
    for (const listed of page.schedules) console.log(`listed ${listed.name} ${listed.state}`);
    pageToken = page.nextPageToken;
  } while (pageToken);

  console.log('press Enter to delete the schedule');
  for await (const _ of process.stdin) break;
  await schedules.DeleteSchedule({ name: schedule.name });
  console.log(`deleted ${schedule.name}`);
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
