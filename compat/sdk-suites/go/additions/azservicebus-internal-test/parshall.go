package test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal/atom"
	"github.com/stretchr/testify/require"
)

var pool struct {
	sync.Mutex
	taken map[string]int
}

// Take gives the name of an entity of this kind that was made beforehand, another one each time.
func Take(t *testing.T, kind string) string {
	t.Helper()
	each, err := strconv.Atoi(os.Getenv("PARSHALL_EACH_KIND"))
	require.NoError(t, err)
	pool.Lock()
	defer pool.Unlock()
	if pool.taken == nil {
		pool.taken = map[string]int{}
	}
	number := pool.taken[kind]
	require.Lessf(t, number, each, "the test asks for more entities of the kind %s than there are", kind)
	pool.taken[kind] = number + 1
	return fmt.Sprintf("%s-%d", kind, number)
}

// KindOf names the entities with these properties.
func KindOf(entity string, requiresSession *bool, lockDuration *string) string {
	kind := entity
	if requiresSession != nil && *requiresSession {
		kind += "-sessions"
	}
	if lockDuration != nil && *lockDuration != "PT1M" {
		kind += "-" + *lockDuration
	}
	return kind
}

// CreateExpiringQueue gives a queue that was made beforehand.
func CreateExpiringQueue(t *testing.T, description *atom.QueueDescription) (string, func()) {
	if description == nil {
		description = &atom.QueueDescription{}
	}
	return Take(t, KindOf("queue", description.RequiresSession, description.LockDuration)), func() {}
}
