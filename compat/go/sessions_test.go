package compat

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func ofSession(session, body string) *azservicebus.Message {
	return &azservicebus.Message{Body: []byte(body), SessionID: to.Ptr(session)}
}

func TestASessionGivesItsMessagesInOrderToOneReceiver(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "sessions"), sharedClient(t)
	send(t, client, queue, ofSession("a", "1"), ofSession("b", "x"), ofSession("a", "2"))
	session := must(client.AcceptSessionForQueue(within(t), queue, "a", nil))(t)
	equal(t, "the session", session.SessionID(), "a")
	messages := receive(t, session, 2)
	equal(t, "what came", bodies(messages), "[1 2]")
	if _, err := client.AcceptSessionForQueue(within(t), queue, "a", nil); err == nil {
		t.Fatal("it was given to two")
	}
	next := must(client.AcceptNextSessionForQueue(within(t), queue, nil))(t)
	equal(t, "the next session", next.SessionID(), "b")
	for _, message := range messages {
		succeeds(t, session.CompleteMessage(within(t), message, nil))
	}
}

func TestASessionHasAStateDeferredMessagesAndALockThatIsRenewed(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "sessions"), sharedClient(t)
	send(t, client, queue, ofSession("a", "later"))
	session := must(client.AcceptSessionForQueue(within(t), queue, "a", nil))(t)
	equal(t, "its state", len(must(session.GetSessionState(within(t), nil))(t)), 0)
	succeeds(t, session.SetSessionState(within(t), []byte("half way"), nil))
	until := session.LockedUntil()
	succeeds(t, session.RenewSessionLock(within(t), nil))
	if session.LockedUntil().Before(until) || session.LockedUntil().Before(time.Now()) {
		t.Fatalf("it is locked until %v, before until %v", session.LockedUntil(), until)
	}
	message := receive(t, session, 1)[0]
	succeeds(t, session.DeferMessage(within(t), message, nil))
	deferred := must(session.ReceiveDeferredMessages(within(t), []int64{*message.SequenceNumber}, nil))(t)
	succeeds(t, session.CompleteMessage(within(t), deferred[0], nil))
	succeeds(t, session.Close(within(t)))
	again := must(client.AcceptSessionForQueue(within(t), queue, "a", nil))(t)
	equal(t, "its state", string(must(again.GetSessionState(within(t), nil))(t)), "half way")
	succeeds(t, again.SetSessionState(within(t), nil, nil))
	if state := must(again.GetSessionState(within(t), nil))(t); state != nil {
		t.Fatalf("the state is %q after it was cleared", state)
	}
}

func TestASessionWhoseLockIsOverGoesToTheNextReceiver(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "brief-sessions"), sharedClient(t)
	send(t, client, queue, ofSession("a", "slow"))
	first := must(client.AcceptSessionForQueue(within(t), queue, "a", nil))(t)
	message := receive(t, first, 1)[0]
	second := must(client.AcceptNextSessionForQueue(within(t), queue, nil))(t)
	again := receive(t, second, 1)[0]
	equal(t, "the delivery count", again.DeliveryCount, 2)
	succeeds(t, second.CompleteMessage(within(t), again, nil))
	// The client tries again for as long as it may.
	brief, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	if err := first.CompleteMessage(brief, message, nil); err == nil {
		t.Fatal("what was lost was completed")
	}
}

func TestWaitingForASessionEndsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "sessions"), sharedClient(t)
	brief, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	if session, err := client.AcceptNextSessionForQueue(brief, queue, nil); err == nil {
		t.Fatal("there is one: ", session.SessionID())
	}
	// What the client no longer waits for must not hold what comes.
	send(t, client, queue, ofSession("a", "1"))
	session := must(client.AcceptNextSessionForQueue(within(t), queue, nil))(t)
	equal(t, "what came", bodies(receive(t, session, 1)), "[1]")
}

func TestSessionsAreListed(t *testing.T) {
	t.Parallel()
	queue, client := unusedQueue(t, "sessions"), sharedClient(t)
	send(t, client, queue, ofSession("b", "1"), ofSession("a", "2"), ofSession("b", "3"))
	var listed []string
	for pager := client.NewListSessionsForQueuePager(queue, nil); pager.More(); {
		page := must(pager.NextPage(within(t)))(t)
		listed = append(listed, page.Sessions...)
	}
	equal(t, "the sessions", fmt.Sprint(listed), "[a b]")
	past := time.Now().Add(-time.Hour)
	pager := client.NewListSessionsForQueuePager(queue, &azservicebus.ListSessionsOptions{SessionStateUpdatedAfter: &past})
	equal(t, "those with a state", len(must(pager.NextPage(within(t)))(t).Sessions), 0)
}
