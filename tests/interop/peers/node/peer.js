// The JavaScript client behind one command: node peer.js '{"do": "produce", "namesrv": "...", ...}'.
// One JSON object per event on stdout; exit status 0 when everything asked for happened.
'use strict';

const { Producer, Consumer, Message } = require('ali-ons');

const command = JSON.parse(process.argv[2]);
const quiet = { info() {}, warn() {}, debug() {}, error(...words) { process.stderr.write(words.join(' ') + '\n'); } };
// The library insists on an HTTP client for discovering name servers, even when their addresses are given.
const options = { nameSrv: command.namesrv, logger: quiet, httpclient: { request() { throw new Error('no discovery here'); } } };

function emit(event, then) {
  process.stdout.write(JSON.stringify(event) + '\n', then);
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
  const consumer = new Consumer(Object.assign({ consumerGroup: command.group, isBroadcast: command.model === 'broadcast', rocketmqClientDir: process.env.HOME, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' }, options));
  let seen = 0;
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${seen} of ${command.count} messages came in time`)), command.timeoutS * 1000);
    // the client also reports errors that it handles, such as a queue without an offset
    consumer.on('error', error => emit({ event: 'error', error: String(error) }));
    const attempts = new Map();
    consumer.subscribe(command.topic, command.tags || '*', async message => {
      const id = message.originMessageId || message.msgId;
      attempts.set(id, (attempts.get(id) || 0) + 1);
      emit({ event: 'message', topic: message.topic, queueId: message.queueId, queueOffset: Number(message.queueOffset), body: message.body.toString(), tags: message.tags, keys: message.keys, msgId: message.msgId, reconsumeTimes: message.reconsumeTimes });
      if (++seen === command.count) resolve();
      if (attempts.get(id) <= (command.failTimes || 0)) throw new Error('asked to fail');
    });
    consumer.ready().catch(reject);
  });
}

(command.do === 'produce' ? produce() : consume()).then(
  () => {
    emit({ event: 'end' }, () => process.exit(0));
  },
  error => {
    emit({ event: 'failed', error: String(error && error.stack || error) }, () => process.exit(1));
  },
);
