// Package azservicebus tests older versions of the official client of Service Bus: send, receive, settle, sessions.
package azservicebus

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"parshall/older/service"
)

// The timeout of everything that must arrive.
const timeout = 20 * time.Second

func connected(t *testing.T) (*azservicebus.Client, context.Context) {
	t.Helper()
	running := service.Start(t)
	options := &azservicebus.ClientOptions{TLSConfig: running.TLS}
	client, err := azservicebus.NewClientFromConnectionString(running.ConnectionString, options)
	succeeds(t, err)
	deadline, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(func() {
		_ = client.Close(context.Background())
		cancel()
	})
	return client, deadline
}

func send(t *testing.T, client *azservicebus.Client, deadline context.Context, queue string, session *string, bodies ...string) {
	t.Helper()
	sender, err := client.NewSender(queue, nil)
	succeeds(t, err)
	batch, err := sender.NewMessageBatch(deadline, nil)
	succeeds(t, err)
	for _, body := range bodies {
		message := &azservicebus.Message{Body: []byte(body), SessionID: session, Subject: to.Ptr("subject")}
		succeeds(t, batch.AddMessage(message, nil))
	}
	succeeds(t, sender.SendMessageBatch(deadline, batch, nil))
	succeeds(t, sender.Close(deadline))
}

type receiver interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

func receive(t *testing.T, from receiver, deadline context.Context, bodies ...string) []*azservicebus.ReceivedMessage {
	t.Helper()
	var messages []*azservicebus.ReceivedMessage
	for len(messages) < len(bodies) {
		more, err := from.ReceiveMessages(deadline, len(bodies)-len(messages), nil)
		succeeds(t, err)
		messages = append(messages, more...)
	}
	var found []string
	for _, message := range messages {
		found = append(found, string(message.Body))
	}
	if !slices.Equal(found, bodies) {
		t.Fatalf("received %v, not %v", found, bodies)
	}
	return messages
}

func TestMessagesAreSettledInEveryWay(t *testing.T) {
	client, deadline := connected(t)
	send(t, client, deadline, "jobs", nil, "complete", "abandon", "defer", "bury")
	jobs, err := client.NewReceiverForQueue("jobs", nil)
	succeeds(t, err)
	messages := receive(t, jobs, deadline, "complete", "abandon", "defer", "bury")
	succeeds(t, jobs.RenewMessageLock(deadline, messages[0], nil))
	succeeds(t, jobs.CompleteMessage(deadline, messages[0], nil))
	succeeds(t, jobs.AbandonMessage(deadline, messages[1], nil))
	succeeds(t, jobs.DeferMessage(deadline, messages[2], nil))
	succeeds(t, jobs.DeadLetterMessage(deadline, messages[3], &azservicebus.DeadLetterOptions{Reason: to.Ptr("reason")}))
	again := receive(t, jobs, deadline, "abandon")[0]
	// The client counts deliveries from one.
	if again.DeliveryCount != 2 {
		t.Fatalf("its delivery count is %d", again.DeliveryCount)
	}
	succeeds(t, jobs.CompleteMessage(deadline, again, nil))
	deferred, err := jobs.ReceiveDeferredMessages(deadline, []int64{*messages[2].SequenceNumber}, nil)
	succeeds(t, err)
	succeeds(t, jobs.CompleteMessage(deadline, deferred[0], nil))
	dead, err := client.NewReceiverForQueue("jobs", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	succeeds(t, err)
	buried := receive(t, dead, deadline, "bury")[0]
	if *buried.DeadLetterReason != "reason" || *buried.Subject != "subject" {
		t.Fatalf("its reason is %q, its subject %q", *buried.DeadLetterReason, *buried.Subject)
	}
	left, err := jobs.PeekMessages(deadline, 1, nil)
	succeeds(t, err)
	if len(left) != 0 {
		t.Fatalf("%d messages are left", len(left))
	}
}

func TestASessionHasItsOrderAndAState(t *testing.T) {
	client, deadline := connected(t)
	send(t, client, deadline, "sessions", to.Ptr("one"), "0", "1", "2")
	session, err := client.AcceptNextSessionForQueue(deadline, "sessions", nil)
	succeeds(t, err)
	if session.SessionID() != "one" {
		t.Fatalf("the session is %q", session.SessionID())
	}
	succeeds(t, session.SetSessionState(deadline, []byte("state"), nil))
	succeeds(t, session.RenewSessionLock(deadline, nil))
	for _, message := range receive(t, session, deadline, "0", "1", "2") {
		succeeds(t, session.CompleteMessage(deadline, message, nil))
	}
	state, err := session.GetSessionState(deadline, nil)
	succeeds(t, err)
	if string(state) != "state" {
		t.Fatalf("the state is %q", state)
	}
}

func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
