#!/usr/bin/env node
// Receives events over HTTP, works on them, and gives their tokens back.
//
// Usage: consumer.js [PORT]    (default 8080; 0 chooses a free port)
'use strict';

const http = require('node:http');
const path = require('node:path');
const { promisify } = require('node:util');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

// The folder of Debian's golang-github-gogo-googleapis-dev has google/api.
const definition = protoLoader.loadSync('escapement/v1/token_service.proto', {
  includeDirs: [path.join(__dirname, '../../../proto'), path.join(__dirname, '../../../third_party/googleapis'),
                '/usr/share/gocode/src/github.com/gogo/googleapis'],
  enums: String, defaults: true });
const { TokenService } = grpc.loadPackageDefinition(definition).escapement.v1;
const tokens = new TokenService(
  process.env.ESCAPEMENT_SERVER || '127.0.0.1:7410', grpc.credentials.createInsecure());
const completeTokens = promisify(tokens.CompleteTokens).bind(tokens);

const done = new Set();

async function work(headers, body) {
  const id = headers['ce-id'];
  // After a fault an event may arrive twice, with the same id. A real service keeps the ids in its database.
  if (!done.has(id)) {
    console.log(`received ${id} of ${headers['ce-time']}: ${body}`);
    done.add(id);
  }
  // Only events with a throttling policy hold a token. Until it is back, the next event may wait.
  const token = headers['escapement-token'];
  if (token) {
    const answer = await completeTokens(
      { completions: [{ token, outcome: 'SUCCEEDED' }] },
      new grpc.Metadata({ waitForReady: true }), { deadline: Date.now() + 10_000 });
    console.log(`token back ${id}: ${answer.results[0].status}`);
  }
}

const server = http.createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  // The event counts as delivered. A program that must not lose it stores it before this answer.
  response.writeHead(204).end();
  await work(request.headers, Buffer.concat(pieces).toString());
});

server.listen(Number(process.argv[2] ?? 8080), '127.0.0.1', () => {
  console.log(`listening http://127.0.0.1:${server.address().port}/`);
});
