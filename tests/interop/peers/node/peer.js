// The JavaScript client behind one command: node peer.js '{"do": "produce", "namesrv": "...", ...}'.
// One JSON object per event on stdout; exit status 0 when everything asked for happened.
'use strict';

const { Producer, Consumer, Message } = require('ali-ons');

const command = JSON.parse(process.argv[2]);
const quiet = { info() {}, warn() {}, debug() {}, error(...words) { process.stderr.write(words.join(' ') + '\n'); } };
// The library insists on an HTTP client for discovering name servers, even when their addresses are given.
const options = { nameSrv: command.namesrv, logger: quiet, httpclient: { request() { throw new Error('no discovery here'); } } };

function emit(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

function body(index) {
  const text = (command.body || 'body-') + index;
  return text.length < (command.size || 0) ? text + 'x'.repeat(command.size - text.length) : text;
}

async function produce() {
  const producer = new Producer(Object.assign({ producerGroup: command.group }, options));
  await producer.ready();
  const tags = (command.tags || '').split(',');
  for (let index = 0; index < command.count; index++) {
    const message = new Message(command.topic, tags[index % tags.length], body(index));
    if (command.keys) message.keys = [command.keys.replace('{i}', String(index))];
    const result = await producer.send(message);
    emit({ event: 'sent', index, status: result.sendStatus, msgId: result.msgId, queueId: result.messageQueue.queueId, queueOffset: Number(result.queueOffset) });
  }
}

async function consume() {
  const consumer = new Consumer(Object.assign({ consumerGroup: command.group, isBroadcast: command.model === 'broadcast', consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' }, options));
  let seen = 0;
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${seen} of ${command.count} messages came in time`)), command.timeoutS * 1000);
    consumer.on('error', reject);
    consumer.subscribe(command.topic, command.tags || '*', async message => {
      emit({ event: 'message', topic: message.topic, queueId: message.queueId, queueOffset: Number(message.queueOffset), body: message.body.toString(), tags: message.tags, keys: message.keys, msgId: message.msgId });
      if (++seen === command.count) resolve();
    });
    consumer.ready().catch(reject);
  });
}

(command.do === 'produce' ? produce() : consume()).then(
  () => {
    emit({ event: 'end' });
    process.exit(0);
  },
  error => {
    emit({ event: 'failed', error: String(error && error.stack || error) });
    process.exit(1);
  },
);
