package compat

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// advance advances the time of a service, and gives what happened.
func advance(t *testing.T, of *service, by string) map[string]int {
	t.Helper()
	answer := must(http.Post(of.http+"/time/advance", "text/plain", strings.NewReader(by)))(t)
	defer answer.Body.Close()
	var advanced struct{ Happened map[string]int }
	succeeds(t, json.NewDecoder(answer.Body).Decode(&advanced))
	return advanced.Happened
}

func TestAClientGoesOnAndItsLocksEndByItsOwnClock(t *testing.T) {
	t.Parallel()
	controlled := &service{directory: t.TempDir(), arguments: []string{"--time-control"}}
	succeeds(t, controlled.start())
	t.Cleanup(func() { _ = controlled.stop() })
	client := client(t, controlled, azservicebus.RetryOptions{MaxRetries: -1})
	isLockedFor := func(until *time.Time, lock time.Duration) {
		t.Helper()
		if left := time.Until(*until); left <= 0 || left > lock {
			t.Fatalf("%v of %v are left", left, lock)
		}
	}

	sender := must(client.NewSender("plain-0", nil))(t)
	later := &azservicebus.Message{Body: []byte("later")}
	must(sender.ScheduleMessages(within(t), []*azservicebus.Message{later}, time.Now().Add(7*time.Hour), nil))(t)
	receiver := must(client.NewReceiverForQueue("plain-0", nil))(t)
	type received struct {
		messages []*azservicebus.ReceivedMessage
		err      error
	}
	waiting := make(chan received, 1)
	go func() {
		messages, err := receiver.ReceiveMessages(within(t), 1, nil)
		waiting <- received{messages, err}
	}()
	equal(t, "locks that ended", advance(t, controlled, "8 h")["message_locks_ended"], 0)
	came := <-waiting
	succeeds(t, came.err)
	message := came.messages[0]
	equal(t, "the delivery count", message.DeliveryCount, 1)
	isLockedFor(message.LockedUntil, time.Minute)
	succeeds(t, receiver.RenewMessageLock(within(t), message, nil))
	isLockedFor(message.LockedUntil, time.Minute)
	succeeds(t, receiver.CompleteMessage(within(t), message, nil))

	// With what it has signed before the advance.
	succeeds(t, sender.SendMessage(within(t), &azservicebus.Message{Body: []byte("another")}, nil))
	send(t, client, "sessions-0", &azservicebus.Message{Body: []byte("hello"), SessionID: to.Ptr("one")})
	session := must(client.AcceptSessionForQueue(within(t), "sessions-0", "one", nil))(t)
	isLockedFor(to.Ptr(session.LockedUntil()), time.Minute)
	succeeds(t, session.RenewSessionLock(within(t), nil))
	isLockedFor(to.Ptr(session.LockedUntil()), time.Minute)
}
