// Package compat runs the official Go client of Service Bus against `parshall serve`.
package compat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// receiving is what receivers of queues and of sessions have in common.
type receiving interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

func send(t *testing.T, from *azservicebus.Client, to string, messages ...*azservicebus.Message) {
	t.Helper()
	sender := must(from.NewSender(to, nil))(t)
	for _, message := range messages {
		succeeds(t, sender.SendMessage(within(t), message, nil))
	}
	succeeds(t, sender.Close(within(t)))
}

func texts(bodies ...string) []*azservicebus.Message {
	messages := make([]*azservicebus.Message, len(bodies))
	for index, body := range bodies {
		messages[index] = &azservicebus.Message{Body: []byte(body)}
	}
	return messages
}

// receive takes so many messages, each of which must come.
func receive(t *testing.T, from receiving, count int) []*azservicebus.ReceivedMessage {
	t.Helper()
	var messages []*azservicebus.ReceivedMessage
	for len(messages) < count {
		more, err := from.ReceiveMessages(within(t), count-len(messages), nil)
		succeeds(t, err)
		messages = append(messages, more...)
	}
	return messages
}

func bodies(messages []*azservicebus.ReceivedMessage) string {
	found := make([]string, len(messages))
	for index, message := range messages {
		found[index] = string(message.Body)
	}
	return fmt.Sprint(found)
}

func hasCode(t *testing.T, err error, code azservicebus.Code) {
	t.Helper()
	var found *azservicebus.Error
	if !errors.As(err, &found) || found.Code != code {
		t.Fatalf("%v is not %q", err, code)
	}
}

func hasCondition(t *testing.T, err error, condition amqp.ErrCond) {
	t.Helper()
	var found *amqp.Error
	if !errors.As(err, &found) || found.Condition != condition {
		t.Fatalf("%v is not %q", err, condition)
	}
}

func TestAMessageArrivesWithEverythingThatWasSaidAboutIt(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	properties := map[string]any{"number": int64(7), "text": "words", "truth": true}
	send(t, client, queue, &azservicebus.Message{
		Body: []byte("body"), Subject: to.Ptr("label"), CorrelationID: to.Ptr("correlation"),
		ContentType: to.Ptr("text/plain"), To: to.Ptr("there"), ReplyTo: to.Ptr("here"),
		TimeToLive: to.Ptr(5 * time.Minute), ApplicationProperties: properties,
	})
	receiver := must(client.NewReceiverForQueue(queue, nil))(t)
	message := receive(t, receiver, 1)[0]
	equal(t, "the body", string(message.Body), "body")
	equal(t, "the subject", *message.Subject, "label")
	equal(t, "the correlation", *message.CorrelationID, "correlation")
	equal(t, "the content type", *message.ContentType, "text/plain")
	equal(t, "the time to live", *message.TimeToLive, 5*time.Minute)
	for name, value := range properties {
		equal(t, name, message.ApplicationProperties[name], value)
	}
	// This client counts the delivery that is under way.
	equal(t, "the delivery count", message.DeliveryCount, 1)
	if message.MessageID == "" || !message.LockedUntil.After(*message.EnqueuedTime) {
		t.Fatalf("%+v", message)
	}
	succeeds(t, receiver.CompleteMessage(within(t), message, nil))
}

func TestEverySectionOfAMessageArrives(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	sender := must(client.NewSender(queue, nil))(t)
	succeeds(t, sender.SendAMQPAnnotatedMessage(within(t), &azservicebus.AMQPAnnotatedMessage{
		Header:                &azservicebus.AMQPAnnotatedMessageHeader{Durable: true, Priority: 100},
		DeliveryAnnotations:   map[any]any{"delivery": "kept"},
		MessageAnnotations:    map[any]any{"annotation": "kept"},
		ApplicationProperties: map[string]any{"number": int64(7)},
		Body:                  azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("one"), []byte("two")}},
		Footer:                map[any]any{"footer": "kept"},
	}, nil))
	receiver := must(client.NewReceiverForQueue(queue, nil))(t)
	message := receive(t, receiver, 1)[0]
	raw := message.RawAMQPMessage
	equal(t, "the header", *raw.Header, azservicebus.AMQPAnnotatedMessageHeader{Durable: true, Priority: 100})
	lock := raw.DeliveryAnnotations["x-opt-lock-token"]
	equal(t, "the lock", lock, any(amqp.UUID(message.LockToken)))
	equal(t, "the delivery annotations", fmt.Sprint(raw.DeliveryAnnotations), fmt.Sprint(map[any]any{"delivery": "kept", "x-opt-lock-token": lock}))
	expected := map[any]any{"annotation": "kept"}
	for _, name := range []string{"x-opt-enqueued-time", "x-opt-sequence-number", "x-opt-enqueue-sequence-number", "x-opt-locked-until"} {
		expected[name] = raw.MessageAnnotations[name]
	}
	equal(t, "the message annotations", fmt.Sprint(raw.MessageAnnotations), fmt.Sprint(expected))
	equal(t, "the body", fmt.Sprintf("%s", raw.Body.Data), "[one two]")
	equal(t, "the footer", fmt.Sprint(raw.Footer), "map[footer:kept]")
	succeeds(t, receiver.CompleteMessage(within(t), message, nil))
}

func TestAMessageMayBeWithoutABody(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	send(t, client, queue, &azservicebus.Message{}, &azservicebus.Message{Subject: to.Ptr("label")})
	receiver := must(client.NewReceiverForQueue(queue, nil))(t)
	for _, message := range receive(t, receiver, 2) {
		equal(t, "the length of the body", len(message.Body), 0)
		succeeds(t, receiver.CompleteMessage(within(t), message, nil))
	}
}

func TestTheFailuresOfADeadLetterAreNotCounted(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	send(t, client, queue, texts("bad")...)
	receiver := must(client.NewReceiverForQueue(queue, nil))(t)
	succeeds(t, receiver.AbandonMessage(within(t), receive(t, receiver, 1)[0], nil))
	message := receive(t, receiver, 1)[0]
	equal(t, "the delivery count", message.DeliveryCount, 2)
	succeeds(t, receiver.DeadLetterMessage(within(t), message, nil))
	options := &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
	dead := must(client.NewReceiverForQueue(queue, options))(t)
	for range 3 {
		message := receive(t, dead, 1)[0]
		equal(t, "the delivery count", message.DeliveryCount, 2)
		succeeds(t, dead.AbandonMessage(within(t), message, nil))
	}
}

func TestABatchArrivesInItsOrder(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	sender := must(client.NewSender(queue, nil))(t)
	batch := must(sender.NewMessageBatch(within(t), nil))(t)
	var expected []string
	for number := range 300 {
		expected = append(expected, fmt.Sprint(number))
		succeeds(t, batch.AddMessage(&azservicebus.Message{Body: []byte(expected[number])}, nil))
	}
	succeeds(t, sender.SendMessageBatch(within(t), batch, nil))
	deleting := &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
	receiver := must(client.NewReceiverForQueue(queue, deleting))(t)
	equal(t, "what came", bodies(receive(t, receiver, 300)), fmt.Sprint(expected))
	equal(t, "what is left", len(must(receiver.PeekMessages(within(t), 1, nil))(t)), 0)
}

func TestEachWayOfSettlingDoesWhatItMeans(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	send(t, client, queue, texts("completed", "abandoned", "deferred", "dead")...)
	receiver := must(client.NewReceiverForQueue(queue, nil))(t)
	messages := receive(t, receiver, 4)
	succeeds(t, receiver.CompleteMessage(within(t), messages[0], nil))
	succeeds(t, receiver.DeferMessage(within(t), messages[2], nil))
	succeeds(t, receiver.DeadLetterMessage(within(t), messages[3], &azservicebus.DeadLetterOptions{
		Reason: to.Ptr("reason"), ErrorDescription: to.Ptr("description"), PropertiesToModify: map[string]any{"line": int64(3)},
	}))
	abandoned := messages[1]
	for count := uint32(2); count <= 3; count++ {
		succeeds(t, receiver.AbandonMessage(within(t), abandoned, nil))
		abandoned = receive(t, receiver, 1)[0]
		equal(t, "the delivery count", abandoned.DeliveryCount, count)
	}
	succeeds(t, receiver.AbandonMessage(within(t), abandoned, nil))
	deferred := must(receiver.ReceiveDeferredMessages(within(t), []int64{*messages[2].SequenceNumber}, nil))(t)
	equal(t, "what was deferred", bodies(deferred), "[deferred]")
	succeeds(t, receiver.CompleteMessage(within(t), deferred[0], nil))
	equal(t, "what is left", len(must(receiver.PeekMessages(within(t), 10, nil))(t)), 0)

	options := &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
	deadLetters := must(client.NewReceiverForQueue(queue, options))(t)
	reasons := map[string]string{}
	for _, message := range receive(t, deadLetters, 2) {
		reasons[string(message.Body)] = *message.DeadLetterReason
		succeeds(t, deadLetters.CompleteMessage(within(t), message, nil))
	}
	equal(t, "the reasons", fmt.Sprint(reasons), "map[abandoned:MaxDeliveryCountExceeded dead:reason]")
}

func TestALockIsRenewedAndOneThatIsOverIsLost(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "brief"), sharedClient(t)
	send(t, client, queue, texts("slow")...)
	receiver := must(client.NewReceiverForQueue(queue, nil))(t)
	message := receive(t, receiver, 1)[0]
	until := *message.LockedUntil
	succeeds(t, receiver.RenewMessageLock(within(t), message, nil))
	if message.LockedUntil.Before(until) {
		t.Fatalf("%v is before %v", message.LockedUntil, until)
	}
	again := receive(t, receiver, 1)[0]
	equal(t, "the delivery count", again.DeliveryCount, 2)
	hasCode(t, receiver.CompleteMessage(within(t), message, nil), azservicebus.CodeLockLost)
	hasCode(t, receiver.RenewMessageLock(within(t), message, nil), azservicebus.CodeLockLost)
	succeeds(t, receiver.CompleteMessage(within(t), again, nil))
}

func TestScheduledMessagesComeAtTheirTimeUnlessTheyAreCancelled(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	sender := must(client.NewSender(queue, nil))(t)
	soon := time.Now().Add(time.Second)
	must(sender.ScheduleMessages(within(t), texts("1", "2"), soon, nil))(t)
	cancelled := must(sender.ScheduleMessages(within(t), texts("cancelled"), soon.Add(time.Hour), nil))(t)
	receiver := must(client.NewReceiverForQueue(queue, nil))(t)
	peeked := must(receiver.PeekMessages(within(t), 1, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &cancelled[0]}))(t)
	equal(t, "what waits", bodies(peeked), "[cancelled]")
	equal(t, "its state", peeked[0].State, azservicebus.MessageStateScheduled)
	succeeds(t, sender.CancelScheduledMessages(within(t), cancelled, nil))
	for _, message := range receive(t, receiver, 2) {
		succeeds(t, receiver.CompleteMessage(within(t), message, nil))
	}
	if time.Now().Before(soon) {
		t.Fatal("they came too early")
	}
	equal(t, "what is left", len(must(receiver.PeekMessages(within(t), 1, nil))(t)), 0)
}

func TestMessagesAreReceivedBySeveralAtOnceAndEachByOne(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	const count = 200
	send(t, client, queue, texts(slices.Repeat([]string{"x"}, count)...)...)
	done := make(chan int64, count)
	stop, cancel := context.WithCancel(within(t))
	defer cancel()
	var workers sync.WaitGroup
	for range 8 {
		receiver := must(client.NewReceiverForQueue(queue, nil))(t)
		workers.Go(func() {
			for stop.Err() == nil {
				messages, err := receiver.ReceiveMessages(stop, 5, nil)
				if err != nil && stop.Err() == nil {
					t.Error(err)
					return
				}
				for _, message := range messages {
					if err := receiver.CompleteMessage(within(t), message, nil); err != nil {
						t.Error(err)
						return
					}
					done <- *message.SequenceNumber
				}
			}
		})
	}
	seen := map[int64]bool{}
	for len(seen) < count && !t.Failed() {
		select {
		case number := <-done:
			if seen[number] {
				t.Errorf("%d came twice", number)
			}
			seen[number] = true
		case <-stop.Done():
			t.Fatalf("only %d came", len(seen))
		}
	}
	cancel()
	workers.Wait()
}

// What comes after a call has ended is given back by the client, and counts as no delivery.
func TestWhatComesTooLateIsThereForTheNextReceiver(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	impatient := must(client.NewReceiverForQueue(queue, nil))(t)
	brief, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	if _, err := impatient.ReceiveMessages(brief, 5, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	send(t, client, queue, texts("late")...)
	receiver := must(client.NewReceiverForQueue(queue, nil))(t)
	message := receive(t, receiver, 1)[0]
	equal(t, "what came", string(message.Body), "late")
	equal(t, "the delivery count", message.DeliveryCount, 1)
	succeeds(t, receiver.CompleteMessage(within(t), message, nil))
}

func TestWhatIsNotThereOrTooLargeIsTold(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "plain"), sharedClient(t)
	// The answer to its token says so: what a link is refused with has no code of this client.
	hasCode(t, must(client.NewSender("nowhere", nil))(t).SendMessage(within(t), texts("lost")[0], nil), azservicebus.CodeNotFound)
	_, err := must(client.NewReceiverForQueue("nowhere", nil))(t).ReceiveMessages(within(t), 1, nil)
	hasCode(t, err, azservicebus.CodeNotFound)
	_, err = must(client.NewReceiverForSubscription("nowhere", "all", nil))(t).PeekMessages(within(t), 1, nil)
	hasCode(t, err, azservicebus.CodeNotFound)
	sender := must(client.NewSender(queue, nil))(t)
	large := &azservicebus.Message{Body: make([]byte, 300*1024)}
	if err := sender.SendMessage(within(t), large, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) {
		t.Fatal(err)
	}
	succeeds(t, sender.SendMessage(within(t), texts("small")[0], nil))
}

func TestAFullQueueRefusesMessages(t *testing.T) {
	t.Parallel()
	sender := must(sharedClient(t).NewSender("full", nil))(t)
	var err error
	for sent := 0; sent < 10 && err == nil; sent++ {
		err = sender.SendMessage(within(t), &azservicebus.Message{Body: make([]byte, 30*1024)}, nil)
	}
	hasCondition(t, err, amqp.ErrCondResourceLimitExceeded)
}

func TestSubscriptionsGetWhatIsSentToTheirTopic(t *testing.T) {
	t.Parallel()
	client := sharedClient(t)
	send(t, client, "news", texts("1", "2")...)
	receiver := must(client.NewReceiverForSubscription("news", "all", nil))(t)
	messages := receive(t, receiver, 2)
	equal(t, "what came", bodies(messages), "[1 2]")
	succeeds(t, receiver.DeadLetterMessage(within(t), messages[0], nil))
	options := &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
	deadLetters := must(client.NewReceiverForSubscription("news", "all", options))(t)
	equal(t, "the dead letters", bodies(receive(t, deadLetters, 1)), "[1]")
}

func TestClientsFindAServiceAgainThatWasKilledAndWhatItHadAccepted(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	durable := &service{directory: directory, arguments: []string{"--data-dir", directory + "/data"}}
	succeeds(t, durable.start())
	defer func() { succeeds(t, durable.stop()) }()
	client := client(t, durable, azservicebus.RetryOptions{MaxRetries: 10, RetryDelay: 200 * time.Millisecond})
	sender := must(client.NewSender("plain-0", nil))(t)
	receiver := must(client.NewReceiverForQueue("plain-0", nil))(t)
	for _, message := range texts("done", "kept") {
		succeeds(t, sender.SendMessage(within(t), message, nil))
	}
	succeeds(t, receiver.CompleteMessage(within(t), receive(t, receiver, 1)[0], nil))
	durable.kill()
	succeeds(t, durable.start())
	succeeds(t, sender.SendMessage(within(t), texts("after")[0], nil))
	var messages []*azservicebus.ReceivedMessage
	for len(messages) < 2 {
		more, err := receiver.ReceiveMessages(within(t), 2-len(messages), nil)
		// The first call after the break may tell of it.
		if err != nil {
			hasCode(t, err, azservicebus.CodeConnectionLost)
		}
		messages = append(messages, more...)
	}
	equal(t, "what is there", bodies(messages), "[kept after]")
	for _, message := range messages {
		succeeds(t, receiver.CompleteMessage(within(t), message, nil))
	}
}
