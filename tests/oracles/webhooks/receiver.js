// A consumer of HTTP deliveries that judges them with libraries that are not ours: the SDK of
// CloudEvents, and the reference library of Standard Webhooks.
//
//   node receiver.js [whsec_…|whpk_…]
//
// Prints its port, then one line of JSON for each request. The secret is the one that the consumer
// knows: whsec_ for HMAC, whpk_ and the base64 text of an Ed25519 public key.
'use strict';
const crypto = require('crypto');
const http = require('http');
const { HTTP } = require('cloudevents');
const { Webhook } = require('standardwebhooks');

const secret = process.argv[2] || '';

// The reference library does not know Ed25519 ("v1a"), so this follows the specification.
function verifyEd25519(body, headers) {
  const key = crypto.createPublicKey({
    key: Buffer.concat([
      Buffer.from('302a300506032b6570032100', 'hex'),  // SubjectPublicKeyInfo of Ed25519
      Buffer.from(secret.slice('whpk_'.length), 'base64'),
    ]),
    format: 'der',
    type: 'spki',
  });
  const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const signatures = headers['webhook-signature'].split(' ').filter((s) => s.startsWith('v1a,'));
  const good = (s) => crypto.verify(null, Buffer.from(text), key, Buffer.from(s.slice(4), 'base64'));
  if (!signatures.some(good)) throw new Error('no matching signature');
}

function verify(body, headers) {
  if (secret.startsWith('whpk_')) return verifyEd25519(body, headers);
  if (secret !== '') new Webhook(secret).verify(body, headers);
}

function judge(request, body) {
  const judged = { method: request.method, body, contentType: request.headers['content-type'] };
  try {
    verify(body, request.headers);
  } catch (error) {
    judged.signature = error.message;
  }
  try {
    const event = HTTP.toEvent({ headers: request.headers, body });
    event.validate();
    for (const name of ['specversion', 'id', 'source', 'type', 'time', 'subject'])
      judged[name] = event[name];
    judged.data = event.data;
  } catch (error) {
    judged.cloudevent = error.message;
  }
  return judged;
}

const server = http.createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    console.log(JSON.stringify(judge(request, Buffer.concat(parts).toString('utf8'))));
    response.writeHead(204).end();
  });
});
server.listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port}`));
