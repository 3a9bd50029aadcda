package compat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// page is how many entries the tests ask for at a time.
const page = 10

// plain sends the requests of a client that knows nothing but TLS without it.
type plain struct{}

func (plain) Do(request *http.Request) (*http.Response, error) {
	request.URL.Scheme = "http"
	return http.DefaultClient.Do(request)
}

func administration(t *testing.T) (*admin.Client, *azservicebus.Client) {
	t.Helper()
	messages := sharedClient(t)
	options := &admin.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: plain{}}}
	return must(admin.NewClientFromConnectionString(shared.connectionString, options))(t), messages
}

func refusedWith(t *testing.T, err error, status int) {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) || response.StatusCode != status {
		t.Fatalf("the error is %v, not one of status %d", err, status)
	}
}

func TestAdministrationOfAQueue(t *testing.T) {
	client, messages := administration(t)
	ctx := within(t)
	properties := &admin.QueueProperties{LockDuration: to.Ptr("PT2M"), MaxDeliveryCount: to.Ptr[int32](4), UserMetadata: to.Ptr("mine")}
	made := must(client.CreateQueue(ctx, "made", &admin.CreateQueueOptions{Properties: properties}))(t)
	equal(t, "the lock duration", *made.LockDuration, "PT2M")
	equal(t, "the maximum delivery count", *made.MaxDeliveryCount, 4)
	made.QueueProperties.LockDuration = to.Ptr("PT30S")
	must(client.UpdateQueue(ctx, "made", made.QueueProperties, nil))(t)
	told := must(client.GetQueue(ctx, "MADE", nil))(t)
	equal(t, "the lock duration", *told.LockDuration, "PT30S")
	equal(t, "the metadata", *told.UserMetadata, "mine")
	sender := must(messages.NewSender("made", nil))(t)
	succeeds(t, sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("one")}, nil))
	figures := must(client.GetQueueRuntimeProperties(ctx, "made", nil))(t)
	equal(t, "the number of messages", figures.ActiveMessageCount, 1)
	_, err := client.CreateQueue(ctx, "made", nil)
	refusedWith(t, err, http.StatusConflict)
	_, err = client.CreateQueue(ctx, "wrong", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{MaxDeliveryCount: to.Ptr[int32](0)}})
	refusedWith(t, err, http.StatusBadRequest)
	must(client.DeleteQueue(ctx, "made", nil))(t)
	if gone, err := client.GetQueue(ctx, "made", nil); err != nil || gone != nil {
		t.Fatalf("the queue is %v, and the error %v", gone, err)
	}
}

func TestAdministrationListsPageByPage(t *testing.T) {
	client, _ := administration(t)
	ctx := within(t)
	for number := range page + 1 {
		must(client.CreateQueue(ctx, fmt.Sprintf("paged-%03d", number), nil))(t)
	}
	names := map[string]bool{}
	pages := 0
	pager := client.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: page})
	for ; pager.More(); pages++ {
		for _, queue := range must(pager.NextPage(ctx))(t).Queues {
			if names[queue.QueueName] {
				t.Fatalf("%s is there twice", queue.QueueName)
			}
			names[queue.QueueName] = true
		}
	}
	if pages < 2 || !names["paged-010"] {
		t.Fatalf("there were %d pages with %v", pages, names)
	}
}

func TestAdministrationOfTopicsAndRules(t *testing.T) {
	client, messages := administration(t)
	ctx := within(t)
	must(client.CreateTopic(ctx, "papers", nil))(t)
	filter := &admin.CorrelationFilter{Subject: to.Ptr("red"), ApplicationProperties: map[string]any{"number": int64(7), "text": "words", "truth": true}}
	options := &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
		DefaultRule: &admin.RuleProperties{Name: "first", Filter: filter},
	}}
	must(client.CreateSubscription(ctx, "papers", "ruled", options))(t)
	told := must(client.GetRule(ctx, "papers", "ruled", "first", nil))(t)
	correlation := told.Filter.(*admin.CorrelationFilter)
	equal(t, "the subject", *correlation.Subject, "red")
	equal(t, "the text", correlation.ApplicationProperties["text"].(string), "words")
	sql := &admin.SQLFilter{Expression: "quantity > @least", Parameters: map[string]any{"@least": int64(5)}}
	must(client.CreateRule(ctx, "papers", "ruled", &admin.CreateRuleOptions{Name: to.Ptr("sql"), Filter: sql}))(t)
	sender := must(messages.NewSender("papers", nil))(t)
	for _, quantity := range []int64{5, 6} {
		message := &azservicebus.Message{Body: fmt.Append(nil, quantity), ApplicationProperties: map[string]any{"quantity": quantity}}
		succeeds(t, sender.SendMessage(ctx, message, nil))
	}
	figures := must(client.GetSubscriptionRuntimeProperties(ctx, "papers", "ruled", nil))(t)
	equal(t, "the number of messages", figures.ActiveMessageCount, 1)
	subscription := must(client.GetSubscription(ctx, "papers", "ruled", nil))(t)
	subscription.SubscriptionProperties.MaxDeliveryCount = to.Ptr[int32](3)
	must(client.UpdateSubscription(ctx, "papers", "ruled", subscription.SubscriptionProperties, nil))(t)
	must(client.DeleteRule(ctx, "papers", "ruled", "sql", nil))(t)
	must(client.DeleteTopic(ctx, "papers", nil))(t)
	if gone, err := client.GetSubscription(context.Background(), "papers", "ruled", nil); err != nil || gone != nil {
		t.Fatalf("the subscription is %v, and the error %v", gone, err)
	}
}
