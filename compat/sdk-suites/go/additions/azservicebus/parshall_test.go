package azservicebus

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal/test"
)

// createQueueUsingClient gives a queue that was made beforehand.
func createQueueUsingClient(t *testing.T, _ *admin.Client, properties *admin.QueueProperties) (string, func()) {
	if properties == nil {
		properties = &admin.QueueProperties{}
	}
	return test.Take(t, test.KindOf("queue", properties.RequiresSession, properties.LockDuration)), func() {}
}

// createSubscription gives a topic that was made beforehand, with a subscription `sub`.
func createSubscription(t *testing.T, _ *admin.TopicProperties, properties *admin.SubscriptionProperties) (string, func()) {
	if properties == nil {
		properties = &admin.SubscriptionProperties{}
	}
	return test.Take(t, test.KindOf("topic", properties.RequiresSession, properties.LockDuration)), func() {}
}
