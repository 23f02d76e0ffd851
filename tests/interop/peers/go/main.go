// The Go client of RocketMQ behind one command: peer '{"do": "produce", "namesrv": "...", ...}'.
// One JSON object per event on stdout; exit status 0 when everything asked for happened.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type command struct {
	Do       string `json:"do"`
	Namesrv  string `json:"namesrv"`
	Topic    string `json:"topic"`
	Group    string `json:"group"`
	Mode     string `json:"mode"`
	Model    string `json:"model"`
	Tags     string `json:"tags"`
	Keys     string `json:"keys"`
	Body     string `json:"body"`
	Size     int    `json:"size"`
	Count    int    `json:"count"`
	First    int    `json:"first"`
	// how often each message fails before it is consumed
	FailTimes int `json:"failTimes"`
	TimeoutS  int `json:"timeoutS"`
}

var lock sync.Mutex

func emit(event map[string]any) {
	text, _ := json.Marshal(event)
	lock.Lock()
	defer lock.Unlock()
	fmt.Println(string(text))
}

func fail(err error) {
	if err != nil {
		emit(map[string]any{"event": "failed", "error": err.Error()})
		os.Exit(1)
	}
}

func message(c command, index int) *primitive.Message {
	index += c.First
	body := fmt.Sprintf("%s%d", c.Body, index)
	if len(body) < c.Size {
		body += strings.Repeat("x", c.Size-len(body))
	}
	m := primitive.NewMessage(c.Topic, []byte(body))
	if c.Tags != "" {
		tags := strings.Split(c.Tags, ",")
		m.WithTag(tags[index%len(tags)])
	}
	if c.Keys != "" {
		m.WithKeys([]string{strings.ReplaceAll(c.Keys, "{i}", fmt.Sprint(index))})
	}
	return m
}

func sent(index int, result *primitive.SendResult) {
	emit(map[string]any{"event": "sent", "index": index, "status": int(result.Status), "msgId": result.MsgID,
		"offsetMsgId": result.OffsetMsgID, "queueId": result.MessageQueue.QueueId, "queueOffset": result.QueueOffset})
}

func produce(c command) {
	p, err := rocketmq.NewProducer(producer.WithNameServer(strings.Split(c.Namesrv, ";")),
		producer.WithGroupName(c.Group), producer.WithSendMsgTimeout(20*time.Second), producer.WithRetry(0))
	fail(err)
	fail(p.Start())
	ctx := context.Background()
	switch c.Mode {
	case "batch":
		var batch []*primitive.Message
		for i := 0; i < c.Count; i++ {
			batch = append(batch, message(c, i))
		}
		result, err := p.SendSync(ctx, batch...)
		fail(err)
		sent(0, result)
	case "async":
		var wait sync.WaitGroup
		for i := 0; i < c.Count; i++ {
			index := i
			wait.Add(1)
			fail(p.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
				defer wait.Done()
				fail(err)
				sent(index, result)
			}, message(c, index)))
		}
		wait.Wait()
	case "oneway":
		for i := 0; i < c.Count-1; i++ {
			fail(p.SendOneWay(ctx, message(c, i)))
		}
		// This client does not mark its one-way requests, so the broker responds to them. A connection
		// closed before the responses are read is reset, and the kernel drops the bytes not sent yet
		// (4 of 3,200 messages with a Java broker on a busy machine). The last message waits for its
		// response, hence for all before it.
		if c.Count > 0 {
			result, err := p.SendSync(ctx, message(c, c.Count-1))
			fail(err)
			sent(c.Count-1, result)
		}
	default:
		for i := 0; i < c.Count; i++ {
			result, err := p.SendSync(ctx, message(c, i))
			fail(err)
			sent(i, result)
		}
	}
	fail(p.Shutdown())
}

func seenMessage(m *primitive.MessageExt) {
	emit(map[string]any{"event": "message", "topic": m.Topic, "queueId": m.Queue.QueueId, "queueOffset": m.QueueOffset,
		"body": string(m.Body), "tags": m.GetTags(), "keys": m.GetKeys(), "msgId": m.MsgId, "offsetMsgId": m.OffsetMsgId,
		"reconsumeTimes": m.ReconsumeTimes})
}

func options(c command) []consumer.Option {
	model := consumer.Clustering
	if c.Model == "broadcast" {
		model = consumer.BroadCasting
	}
	return []consumer.Option{consumer.WithNameServer(strings.Split(c.Namesrv, ";")),
		consumer.WithGroupName(c.Group), consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(c.Mode == "orderly"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}
}

func selector(c command) consumer.MessageSelector {
	if c.Tags == "" {
		return consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: c.Tags}
}

func consume(c command) {
	pc, err := rocketmq.NewPushConsumer(options(c)...)
	fail(err)
	seen := make(chan bool, 10000)
	attempts := map[string]int{}
	fail(pc.Subscribe(c.Topic, selector(c), func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		failed := false
		for _, m := range messages {
			seenMessage(m)
			lock.Lock()
			attempts[m.MsgId]++
			failed = failed || attempts[m.MsgId] <= c.FailTimes
			lock.Unlock()
			seen <- true
		}
		if !failed {
			return consumer.ConsumeSuccess, nil
		}
		if c.Mode == "orderly" {
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		if concurrently, found := primitive.GetConcurrentlyCtx(ctx); found {
			concurrently.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater, nil
	}))
	fail(pc.Start())
	deadline := time.After(time.Duration(c.TimeoutS) * time.Second)
	for got := 0; got < c.Count; got++ {
		select {
		case <-seen:
		case <-deadline:
			fail(fmt.Errorf("%d of %d messages came in time", got, c.Count))
		}
	}
	// the last messages are counted shortly after they were seen; shutting down commits them
	time.Sleep(200 * time.Millisecond)
	fail(pc.Shutdown())
}

func pull(c command) {
	pc, err := rocketmq.NewPullConsumer(append(options(c), consumer.WithAutoCommit(true))...)
	fail(err)
	fail(pc.Subscribe(c.Topic, selector(c)))
	fail(pc.Start())
	deadline := time.Now().Add(time.Duration(c.TimeoutS) * time.Second)
	for got := 0; got < c.Count; {
		if time.Now().After(deadline) {
			fail(fmt.Errorf("%d of %d messages came in time", got, c.Count))
		}
		request, err := pc.Poll(context.Background(), time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		fail(err)
		for _, m := range request.GetMsgList() {
			seenMessage(m)
			got++
		}
		pc.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	fail(pc.Shutdown())
}

func main() {
	rlog.SetLogLevel("fatal")
	var c command
	fail(json.Unmarshal([]byte(os.Args[1]), &c))
	switch c.Do {
	case "produce":
		produce(c)
	case "pull":
		pull(c)
	default:
		consume(c)
	}
	emit(map[string]any{"event": "end"})
}
