import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * The real Java clients and the real mqadmin, driven by lines of JSON.
 *
 * stdin:  {"id": 1, "do": "produce", "namesrv": "...", ...}
 * stdout: one JSON object per event; the last event of a command is {"id": 1, "event": "end", "error": null | text}.
 * A push consumer continues after its command ended: its events carry "consumer": its name.
 */
@SuppressWarnings({"deprecation", "removal"})
public final class Peer {
    private static final PrintStream OUT = System.out;
    private static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<String, TransactionMQProducer> TRANSACTIONAL = new ConcurrentHashMap<>();
    private static final Map<String, DefaultMQPushConsumer> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<String, DefaultMQPullConsumer> PULLERS = new ConcurrentHashMap<>();
    /** For each push consumer and queue, the offset after the last message that its listener accepted. */
    private static final Map<String, Map<MessageQueue, Long>> TAKEN = new ConcurrentHashMap<>();
    private static int instances;
    private static volatile boolean over;

    private static final class Exit extends Error {
        final int status;

        Exit(int status) {
            this.status = status;
        }
    }

    public static void main(String[] args) throws Exception {
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkPermission(Permission permission) {
            }

            @Override
            public void checkExit(int status) {
                if (!over) {
                    throw new Exit(status);
                }
            }
        });
        wakeWhatShutdownWaitsFor(Thread.currentThread());
        emit(event(null, "ready"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject command = JSON.parseObject(line);
            JSONObject end = event(command, "end");
            try {
                run(command, end);
                end.putIfAbsent("error", null);
            } catch (Throwable error) {
                end.put("error", error.toString());
            }
            emit(end);
        }
        over = true;
        Runtime.getRuntime().halt(0);
    }

    /**
     * Shutting a client down joins its event thread, which looks up every three seconds only. A test
     * run closes some hundred clients: wake that thread as soon as a caller waits for it.
     */
    private static void wakeWhatShutdownWaitsFor(Thread worker) {
        Thread waker = new Thread(() -> {
            while (!over) {
                boolean joining = false;
                for (StackTraceElement frame : worker.getStackTrace()) {
                    joining |= frame.getMethodName().equals("shutdown") && frame.getClassName().endsWith("ServiceThread");
                }
                if (joining) {
                    for (Thread thread : Thread.getAllStackTraces().keySet()) {
                        if (thread.getName().contains("NettyEventExecutor")) {
                            thread.interrupt();
                        }
                    }
                }
                try {
                    Thread.sleep(30);
                } catch (InterruptedException stop) {
                    return;
                }
            }
        }, "waker");
        waker.setDaemon(true);
        waker.start();
    }

    private static void run(JSONObject command, JSONObject end) throws Exception {
        switch (command.getString("do")) {
            case "produce":
                produce(command);
                break;
            case "transaction":
                transaction(command);
                break;
            case "stopProducer":
                TRANSACTIONAL.remove(command.getString("producer")).shutdown();
                break;
            case "consume":
                consume(command);
                break;
            case "stop":
                stop(command.getString("consumer"));
                break;
            case "assigned":
                assigned(command);
                break;
            case "litepull":
                litePull(command);
                break;
            case "headers":
                headers(command.getString("type"));
                break;
            case "request":
                request(command);
                break;
            case "forget":
                forget(command.getString("namesrv"));
                break;
            case "dump":
                dump(command);
                break;
            case "query":
                query(command);
                break;
            case "committed":
                committed(command);
                break;
            case "recall":
                recall(command);
                break;
            case "mqadmin":
                mqadmin(command, end);
                break;
            default:
                throw new IllegalArgumentException("unknown command");
        }
    }

    private static JSONObject event(JSONObject command, String name) {
        JSONObject event = new JSONObject(true);
        if (command != null) {
            event.put("id", command.get("id"));
        }
        event.put("event", name);
        return event;
    }

    private static void emit(JSONObject event) {
        String text = event.toString(com.alibaba.fastjson.serializer.SerializerFeature.WriteMapNullValue);
        synchronized (OUT) {
            OUT.println(text);
            OUT.flush();
        }
    }

    private static DefaultMQProducer producer(JSONObject command) throws Exception {
        String key = command.getString("namesrv") + " " + command.getString("group") + " " + command.get("compressOver")
            + " " + command.get("compressType") + " " + command.get("vip");
        DefaultMQProducer known = PRODUCERS.get(key);
        if (known != null) {
            return known;
        }
        String group = command.getString("group");
        DefaultMQProducer producer = new DefaultMQProducer(group == null ? "peer-producer" : group);
        producer.setNamesrvAddr(command.getString("namesrv"));
        producer.setInstanceName("p" + ++instances);
        producer.setSendMsgTimeout(20000);
        producer.setMaxMessageSize(8 * 1024 * 1024);
        if (command.containsKey("compressOver")) {
            producer.setCompressMsgBodyOverHowmuch(command.getIntValue("compressOver"));
        }
        if (command.containsKey("compressType")) {
            // 5.x has a setter; 4.9 reads a system property when the producer is made
            for (java.lang.reflect.Method method : DefaultMQProducer.class.getMethods()) {
                if (method.getName().equals("setCompressType")) {
                    method.invoke(producer, method.getParameterTypes()[0].getField(command.getString("compressType")).get(null));
                }
            }
        }
        producer.setVipChannelEnabled(command.getBooleanValue("vip"));
        producer.start();
        PRODUCERS.put(key, producer);
        return producer;
    }

    /** A message's own properties decide: "local" when it is sent, "check" when the broker asks. */
    private static LocalTransactionState decision(String text) {
        if (text == null || text.equals("unknown")) {
            return LocalTransactionState.UNKNOW;
        }
        return text.equals("commit") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
    }

    private static TransactionMQProducer transactional(JSONObject command) throws Exception {
        String name = command.getString("producer");
        TransactionMQProducer known = TRANSACTIONAL.get(name);
        if (known != null) {
            return known;
        }
        TransactionMQProducer producer = new TransactionMQProducer(command.getString("group"));
        producer.setNamesrvAddr(command.getString("namesrv"));
        producer.setInstanceName("t" + ++instances);
        producer.setSendMsgTimeout(20000);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return decision(message.getUserProperty("local"));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                JSONObject event = event(null, "check");
                event.put("consumer", name);
                event.put("topic", message.getTopic());
                event.put("queueId", message.getQueueId());
                event.put("queueOffset", message.getQueueOffset());
                event.put("body", Base64.getEncoder().encodeToString(message.getBody()));
                event.put("msgId", message.getTransactionId());
                event.put("checkTimes", message.getUserProperty("TRANSACTION_CHECK_TIMES"));
                event.put("decision", message.getUserProperty("check"));
                emit(event);
                return decision(message.getUserProperty("check"));
            }
        });
        producer.start();
        TRANSACTIONAL.put(name, producer);
        return producer;
    }

    private static void transaction(JSONObject command) throws Exception {
        TransactionMQProducer producer = transactional(command);
        int first = command.getIntValue("first");
        int count = command.containsKey("count") ? command.getIntValue("count") : 1;
        for (int index = first; index < first + count; index++) {
            try {
                TransactionSendResult result = producer.sendMessageInTransaction(message(command, index), null);
                JSONObject event = event(command, "sent");
                event.put("index", index);
                event.put("status", result.getSendStatus().name());
                event.put("local", result.getLocalTransactionState().name());
                event.put("msgId", result.getMsgId());
                event.put("offsetMsgId", result.getOffsetMsgId());
                event.put("transactionId", result.getTransactionId());
                event.put("queueId", result.getMessageQueue().getQueueId());
                event.put("queueOffset", result.getQueueOffset());
                emit(event);
            } catch (Exception error) {
                failed(command, index, error);
            }
        }
    }

    private static byte[] body(JSONObject command, int index) {
        String text = command.getString("body");
        byte[] start = ((text == null ? "body-" : text) + index).getBytes(StandardCharsets.UTF_8);
        int size = command.getIntValue("size");
        if (size <= start.length) {
            return start;
        }
        byte[] body = Arrays.copyOf(start, size);
        long state = index * 2862933555777941757L + 3037000493L;
        boolean compressible = command.getBooleanValue("compressible");
        for (int at = start.length; at < size; at++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            body[at] = (byte) (compressible ? 'a' + (at / 16) % 16 : state >>> 56);
        }
        return body;
    }

    private static Message message(JSONObject command, int index) {
        Message message = new Message(command.getString("topic"), body(command, index));
        if (command.containsKey("tags")) {
            String[] tags = command.getString("tags").split(",");
            message.setTags(tags[index % tags.length]);
        }
        if (command.containsKey("keys")) {
            message.setKeys(command.getString("keys").replace("{i}", String.valueOf(index)));
        }
        if (command.containsKey("delayLevel")) {
            message.setDelayTimeLevel(command.getIntValue("delayLevel"));
        }
        if (command.containsKey("system")) {
            // names that putUserProperty refuses, such as TIMER_DELAY_MS, which 4.9 has no setter for
            for (Map.Entry<String, Object> entry : command.getJSONObject("system").entrySet()) {
                MessageAccessor.putProperty(message, entry.getKey(), entry.getValue().toString());
            }
        }
        if (command.containsKey("properties")) {
            for (Map.Entry<String, Object> entry : command.getJSONObject("properties").entrySet()) {
                message.putUserProperty(entry.getKey(), entry.getValue().toString().replace("{i}", String.valueOf(index)));
            }
        }
        return message;
    }

    private static void sent(JSONObject command, int index, SendResult result) {
        JSONObject event = event(command, "sent");
        event.put("index", index);
        event.put("status", result.getSendStatus().name());
        event.put("msgId", result.getMsgId());
        event.put("offsetMsgId", result.getOffsetMsgId());
        event.put("brokerName", result.getMessageQueue().getBrokerName());
        event.put("queueId", result.getMessageQueue().getQueueId());
        event.put("queueOffset", result.getQueueOffset());
        event.put("transactionId", result.getTransactionId());
        event.put("regionId", result.getRegionId());
        try {
            event.put("recallHandle", SendResult.class.getMethod("getRecallHandle").invoke(result));
        } catch (ReflectiveOperationException before532) {
            event.put("recallHandle", null);
        }
        emit(event);
    }

    private static void failed(JSONObject command, int index, Throwable error) {
        JSONObject event = event(command, "failed");
        event.put("index", index);
        event.put("error", error.toString());
        emit(event);
    }

    /** Recall a timer message by its handle (5.3.2 and later). */
    private static void recall(JSONObject command) throws Exception {
        JSONObject event = event(command, "recalled");
        try {
            Object msgId = DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class)
                .invoke(producer(command), command.getString("topic"), command.getString("handle"));
            event.put("msgId", msgId);
        } catch (java.lang.reflect.InvocationTargetException error) {
            Throwable cause = error.getCause();
            event.put("error", cause.getClass().getSimpleName());
            if (cause instanceof org.apache.rocketmq.client.exception.MQBrokerException) {
                event.put("code", ((org.apache.rocketmq.client.exception.MQBrokerException) cause).getResponseCode());
            }
        }
        emit(event);
    }

    private static void produce(JSONObject command) throws Exception {
        DefaultMQProducer producer = producer(command);
        String mode = command.containsKey("mode") ? command.getString("mode") : "sync";
        int first = command.getIntValue("first");
        int count = command.containsKey("count") ? command.getIntValue("count") : 1;
        Semaphore window = new Semaphore(32);
        CountDownLatch done = new CountDownLatch(mode.equals("async") ? count : 0);
        if (mode.equals("batch")) {
            List<Message> batch = new ArrayList<>();
            for (int index = first; index < first + count; index++) {
                batch.add(message(command, index));
            }
            sent(command, first, producer.send(batch));
            return;
        }
        for (int index = first; index < first + count; index++) {
            final int number = index;
            Message message = message(command, index);
            if (mode.equals("oneway")) {
                producer.sendOneway(message);
            } else if (mode.equals("async")) {
                window.acquire();
                producer.send(message, new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        sent(command, number, result);
                        window.release();
                        done.countDown();
                    }

                    @Override
                    public void onException(Throwable error) {
                        failed(command, number, error);
                        window.release();
                        done.countDown();
                    }
                });
            } else {
                try {
                    if (command.containsKey("queue")) {
                        int queue = command.getIntValue("queue");
                        sent(command, number, producer.send(message, (queues, m, wanted) -> {
                            for (MessageQueue candidate : queues) {
                                if (candidate.getQueueId() == (Integer) wanted) {
                                    return candidate;
                                }
                            }
                            return queues.get(0);
                        }, queue));
                    } else {
                        sent(command, number, producer.send(message));
                    }
                } catch (Exception error) {
                    failed(command, number, error);
                }
            }
        }
        if (!done.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("async sends without an answer: " + done.getCount());
        }
    }

    private static JSONObject seen(JSONObject command, String name, MessageExt message) {
        JSONObject event = event(command, name);
        event.put("topic", message.getTopic());
        event.put("brokerName", message.getBrokerName());
        event.put("queueId", message.getQueueId());
        event.put("queueOffset", message.getQueueOffset());
        event.put("physicalOffset", message.getCommitLogOffset());
        event.put("storeSize", message.getStoreSize());
        event.put("sysFlag", message.getSysFlag());
        event.put("flag", message.getFlag());
        event.put("bodyCRC", message.getBodyCRC());
        event.put("bornTimestamp", message.getBornTimestamp());
        event.put("storeTimestamp", message.getStoreTimestamp());
        event.put("bornHost", String.valueOf(message.getBornHost()));
        event.put("storeHost", String.valueOf(message.getStoreHost()));
        event.put("reconsumeTimes", message.getReconsumeTimes());
        event.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        event.put("msgId", message.getMsgId());
        event.put("uniqKey", MessageClientIDSetter.getUniqID(message));
        event.put("tags", message.getTags());
        event.put("keys", message.getKeys());
        byte[] body = message.getBody();
        event.put("body", body == null ? "" : Base64.getEncoder().encodeToString(body));
        event.put("properties", new TreeMap<>(message.getProperties()));
        return event;
    }

    private static void consume(JSONObject command) throws Exception {
        String name = command.getString("consumer");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(command.getString("group"));
        consumer.setNamesrvAddr(command.getString("namesrv"));
        consumer.setInstanceName(name);
        consumer.setMaxReconsumeTimes(command.containsKey("maxReconsume") ? command.getIntValue("maxReconsume") : -1);
        consumer.setConsumeFromWhere("last".equals(command.getString("from"))
            ? ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET : ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if ("broadcast".equals(command.getString("model"))) {
            // The enum lives in another package in 4.9 than in 5.x: take it from the setter.
            for (java.lang.reflect.Method method : DefaultMQPushConsumer.class.getMethods()) {
                if (method.getName().equals("setMessageModel")) {
                    method.invoke(consumer, method.getParameterTypes()[0].getField("BROADCASTING").get(null));
                }
            }
        }
        consumer.subscribe(command.getString("topic"), command.containsKey("tags") ? command.getString("tags") : "*");
        if (command.getBooleanValue("pop")) {
            pop(consumer, command);
        }
        int failTimes = command.getIntValue("failTimes");
        if ("orderly".equals(command.getString("mode"))) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                boolean fails = messages.get(0).getReconsumeTimes() < failTimes;
                report(name, messages, fails ? null : context.getMessageQueue());
                if (fails) {
                    context.setSuspendCurrentQueueTimeMillis(100);
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                boolean fails = messages.get(0).getReconsumeTimes() < failTimes;
                report(name, messages, fails ? null : context.getMessageQueue());
                if (fails) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.setVipChannelEnabled(command.getBooleanValue("vip"));
        TAKEN.put(name, new ConcurrentHashMap<>());
        consumer.start();
        CONSUMERS.put(name, consumer);
    }

    /** Ask the broker for the assignment, so that a group in POP mode pops; 5.x only. */
    private static void pop(DefaultMQPushConsumer consumer, JSONObject command) throws Exception {
        DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        DefaultMQPushConsumer.class.getMethod("setPopInvisibleTime", long.class)
            .invoke(consumer, command.getLongValue("invisibleMs"));
        DefaultMQPushConsumer.class.getMethod("setPopBatchNums", int.class).invoke(consumer, 32);
    }

    /** The queues of its topic that a push consumer holds now. */
    private static void assigned(JSONObject command) {
        DefaultMQPushConsumer consumer = CONSUMERS.get(command.getString("consumer"));
        for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
            if (queue.getTopic().equals(command.getString("topic"))) {
                JSONObject event = event(command, "assigned");
                event.put("queueId", queue.getQueueId());
                emit(event);
            }
        }
    }

    private static void litePull(JSONObject command) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(command.getString("group"));
        consumer.setNamesrvAddr(command.getString("namesrv"));
        consumer.setInstanceName("l" + ++instances);
        consumer.setAutoCommit(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(command.getString("topic"), command.containsKey("tags") ? command.getString("tags") : "*");
        consumer.start();
        try {
            long deadline = System.currentTimeMillis() + 60000;
            int missing = command.getIntValue("count");
            while (missing > 0) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException(missing + " messages did not come");
                }
                for (MessageExt message : consumer.poll(1000)) {
                    emit(seen(command, "message", message));
                    missing--;
                }
            }
            consumer.commitSync();
        } finally {
            consumer.shutdown();
        }
    }

    /**
     * Request-reply: sends requests that the consumer "replier" answers, one event per reply. The 5.3.3
     * client calls a callback once with null when the request is stored, and once with the reply.
     */
    private static void request(JSONObject command) throws Exception {
        String group = command.getString("group");
        DefaultMQProducer replier = new DefaultMQProducer(group + "-replier");
        DefaultMQProducer requester = new DefaultMQProducer(group + "-requester");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        int count = command.getIntValue("count");
        CountDownLatch confirmed = new CountDownLatch(count);
        CountDownLatch replies = new CountDownLatch(count);
        try {
            for (DefaultMQProducer producer : Arrays.asList(replier, requester)) {
                producer.setNamesrvAddr(command.getString("namesrv"));
                producer.setInstanceName("r" + ++instances);
                producer.setSendMsgTimeout(20000);
                producer.setHeartbeatBrokerInterval(1000);
                producer.start();
            }
            consumer.setNamesrvAddr(command.getString("namesrv"));
            consumer.setInstanceName("r" + ++instances);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(command.getString("topic"), "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    try {
                        String text = "re: " + new String(message.getBody(), StandardCharsets.UTF_8);
                        Message reply = org.apache.rocketmq.client.utils.MessageUtil.createReplyMessage(
                            message, text.getBytes(StandardCharsets.UTF_8));
                        JSONObject event = event(command, "replied");
                        event.put("status", replier.send(reply, 10000).getSendStatus().name());
                        emit(event);
                    } catch (Exception failed) {
                        JSONObject event = event(command, "replied");
                        event.put("status", failed.getClass().getSimpleName());
                        emit(event);
                    }
                    confirmed.countDown();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            // The broker must know the requester's channel: its heartbeats start after a second.
            requester.send(new Message(command.getString("topic") + "-other", "first".getBytes(StandardCharsets.UTF_8)));
            Thread.sleep(2500);
            for (int index = 0; index < count; index++) {
                Message message = new Message(command.getString("topic"), ("ask-" + index).getBytes(StandardCharsets.UTF_8));
                requester.request(message, new org.apache.rocketmq.client.producer.RequestCallback() {
                    @Override
                    public void onSuccess(Message reply) {
                        if (reply == null) {
                            return;
                        }
                        JSONObject event = event(command, "reply");
                        event.put("body", Base64.getEncoder().encodeToString(reply.getBody()));
                        event.put("properties", new ArrayList<>(new java.util.TreeSet<>(reply.getProperties().keySet())));
                        event.put("topic", reply.getTopic());
                        emit(event);
                        replies.countDown();
                    }

                    @Override
                    public void onException(Throwable error) {
                        JSONObject event = event(command, "failed");
                        event.put("error", String.valueOf(error.getMessage()));
                        emit(event);
                        replies.countDown();
                    }
                }, 20000);
            }
            if (!replies.await(60, TimeUnit.SECONDS) || !confirmed.await(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException(replies.getCount() + " requests without a reply");
            }
        } finally {
            consumer.shutdown();
            requester.shutdown();
            replier.shutdown();
        }
    }

    /** From now on this JVM writes request headers as JSON or ROCKETMQ (binary). */
    private static void headers(String type) throws Exception {
        Field field = RemotingCommand.class.getDeclaredField("serializeTypeConfigInThisServer");
        field.setAccessible(true);
        field.set(null, SerializeType.valueOf(type));
    }

    /** Close the clients of a cluster that is stopped. */
    private static void forget(String namesrv) {
        PRODUCERS.entrySet().removeIf(entry -> {
            boolean gone = entry.getKey().startsWith(namesrv + " ");
            if (gone) {
                entry.getValue().shutdown();
            }
            return gone;
        });
        PULLERS.entrySet().removeIf(entry -> {
            boolean gone = entry.getKey().startsWith(namesrv + " ");
            if (gone) {
                entry.getValue().shutdown();
            }
            return gone;
        });
    }

    private static void report(String name, List<MessageExt> messages, MessageQueue takenFrom) {
        if (takenFrom != null) {
            TAKEN.get(name).merge(takenFrom, messages.get(messages.size() - 1).getQueueOffset() + 1, Math::max);
        }
        for (MessageExt message : messages) {
            JSONObject event = seen(null, "message", message);
            event.put("consumer", name);
            emit(event);
        }
    }

    /**
     * A message counts as consumed a moment after its listener returned; other messages are delivered
     * again when the client shuts down: wait until all are counted, so that tests may rely on them.
     */
    private static void stop(String name) throws InterruptedException {
        DefaultMQPushConsumer consumer = CONSUMERS.remove(name);
        if (consumer == null) {
            return;
        }
        DefaultMQPushConsumerImpl inside = consumer.getDefaultMQPushConsumerImpl();
        OffsetStore offsets = inside.getOffsetStore();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        for (Map.Entry<MessageQueue, Long> taken : TAKEN.remove(name).entrySet()) {
            MessageQueue queue = taken.getKey();
            while (offsets.readOffset(queue, ReadOffsetType.READ_FROM_MEMORY) < taken.getValue()
                && inside.getRebalanceImpl().getProcessQueueTable().containsKey(queue)
                && System.nanoTime() < deadline) {
                Thread.sleep(2);
            }
        }
        consumer.shutdown();
    }

    private static DefaultMQPullConsumer puller(JSONObject command) throws Exception {
        String key = command.getString("namesrv") + " " + command.getString("group") + " " + command.get("vip");
        DefaultMQPullConsumer known = PULLERS.get(key);
        if (known != null) {
            return known;
        }
        String group = command.getString("group");
        DefaultMQPullConsumer puller = new DefaultMQPullConsumer(group == null ? "peer-reader" : group);
        puller.setNamesrvAddr(command.getString("namesrv"));
        puller.setInstanceName("r" + ++instances);
        puller.setConsumerPullTimeoutMillis(30000);
        puller.setVipChannelEnabled(command.getBooleanValue("vip"));
        puller.start();
        PULLERS.put(key, puller);
        return puller;
    }

    /** Every message of every queue of a topic, with the bounds of the queues. */
    private static void dump(JSONObject command) throws Exception {
        DefaultMQPullConsumer puller = puller(command);
        String tags = command.containsKey("tags") ? command.getString("tags") : "*";
        for (MessageQueue queue : puller.fetchSubscribeMessageQueues(command.getString("topic"))) {
            long offset = puller.minOffset(queue);
            long max = puller.maxOffset(queue);
            JSONObject bounds = event(command, "queue");
            bounds.put("queueId", queue.getQueueId());
            bounds.put("brokerName", queue.getBrokerName());
            bounds.put("minOffset", offset);
            bounds.put("maxOffset", max);
            emit(bounds);
            while (offset < max) {
                PullResult result = puller.pull(queue, tags, offset, 32);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    for (MessageExt message : result.getMsgFoundList()) {
                        emit(seen(command, "message", message));
                    }
                }
                if (result.getNextBeginOffset() <= offset) {
                    throw new IllegalStateException(queue + " makes no progress at " + offset + ": " + result);
                }
                offset = result.getNextBeginOffset();
            }
        }
    }

    private static void query(JSONObject command) throws Exception {
        DefaultMQPullConsumer puller = puller(command);
        String topic = command.getString("topic");
        if (command.containsKey("msgId")) {
            emit(seen(command, "message", puller.viewMessage(topic, command.getString("msgId"))));
            return;
        }
        long begin = command.getLongValue("begin");
        long end = command.containsKey("end") ? command.getLongValue("end") : Long.MAX_VALUE;
        for (MessageExt message : puller.queryMessage(topic, command.getString("key"), 64, begin, end).getMessageList()) {
            emit(seen(command, "message", message));
        }
    }

    private static void committed(JSONObject command) throws Exception {
        DefaultMQPullConsumer puller = puller(command);
        for (MessageQueue queue : puller.fetchSubscribeMessageQueues(command.getString("topic"))) {
            if (command.containsKey("offset") && queue.getQueueId() == command.getIntValue("queue")) {
                puller.getDefaultMQPullConsumerImpl().updateConsumeOffset(queue, command.getLongValue("offset"));
                puller.getOffsetStore().persist(queue);
            }
            JSONObject event = event(command, "committed");
            event.put("queueId", queue.getQueueId());
            event.put("offset", puller.fetchConsumeOffset(queue, true));
            emit(event);
        }
    }

    private static void mqadmin(JSONObject command, JSONObject end) throws Exception {
        ByteArrayOutputStream stdout = new ByteArrayOutputStream();
        ByteArrayOutputStream stderr = new ByteArrayOutputStream();
        PrintStream realErr = System.err;
        int status = 0;
        try {
            System.setOut(new PrintStream(stdout, true, "UTF-8"));
            System.setErr(new PrintStream(stderr, true, "UTF-8"));
            for (Field field : MQAdminStartup.class.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) && List.class.isAssignableFrom(field.getType())) {
                    field.setAccessible(true);
                    ((List<?>) field.get(null)).clear();
                }
            }
            MQAdminStartup.main0(command.getJSONArray("args").toArray(new String[0]), null);
        } catch (Exit exit) {
            status = exit.status;
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(OUT);
            System.setErr(realErr);
        }
        end.put("status", status);
        end.put("stdout", stdout.toString("UTF-8"));
        end.put("stderr", stderr.toString("UTF-8"));
    }
}
