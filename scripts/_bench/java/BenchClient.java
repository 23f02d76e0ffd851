import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** The measurements of client.py with the Java client: arguments namesrv, topic, messages, sync sends, bytes, start in epoch ms. */
public class BenchClient {
    public static void main(String[] args) throws Exception {
        String namesrv = args[0];
        String topic = args[1];
        int count = Integer.parseInt(args[2]);
        int sync = Integer.parseInt(args[3]);
        long began = Long.parseLong(args[5]);
        byte[] body = new byte[Integer.parseInt(args[4])];
        Arrays.fill(body, (byte) 'x');
        DefaultMQProducer producer = new DefaultMQProducer("bench-java");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(30000);
        producer.start();
        producer.send(new Message(topic, body));
        long startMs = System.currentTimeMillis() - began;
        send(producer, topic, body, count / 5);
        double sendRate = send(producer, topic, body, count);
        double[] latencies = new double[sync];
        for (int i = 0; i < sync; i++) {
            long then = System.nanoTime();
            producer.send(new Message(topic, body));
            latencies[i] = (System.nanoTime() - then) / 1e6;
        }
        Arrays.sort(latencies);
        producer.shutdown();
        CountDownLatch left = new CountDownLatch(count);
        long[] first = new long[1];
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench-java-" + System.nanoTime());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            synchronized (first) {
                if (first[0] == 0) {
                    first[0] = System.nanoTime();
                }
            }
            left.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!left.await(300, TimeUnit.SECONDS)) {
            throw new IllegalStateException(left.getCount() + " messages did not come");
        }
        double consumeRate = count / ((System.nanoTime() - first[0]) / 1e9);
        long rss = 0;
        for (String line : java.nio.file.Files.readAllLines(java.nio.file.Paths.get("/proc/self/status"))) {
            if (line.startsWith("VmHWM")) {
                rss = Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        System.out.printf(java.util.Locale.ROOT,
            "{\"start_ms\":%d,\"send_rate\":%.1f,\"sync_p50_ms\":%.4f,\"sync_p99_ms\":%.4f,\"consume_rate\":%.1f,\"rss_kib\":%d}%n",
            startMs, sendRate, latencies[sync / 2], latencies[sync * 99 / 100], consumeRate, rss);
        System.exit(0);
    }

    private static double send(DefaultMQProducer producer, String topic, byte[] body, int count) throws Exception {
        Semaphore window = new Semaphore(512);
        long then = System.nanoTime();
        for (int i = 0; i < count; i++) {
            window.acquire();
            producer.send(new Message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    window.release();
                }

                @Override
                public void onException(Throwable error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
        }
        window.acquire(512);
        return count / ((System.nanoTime() - then) / 1e9);
    }
}
