package amqp_test

import (
	"fmt"
	"sync/atomic"
)

var queuesTaken atomic.Int32

// unusedQueue is a queue that was made beforehand, in place of one that a test broker makes of any name.
func unusedQueue() string {
	return fmt.Sprintf("queue-%d", queuesTaken.Add(1)-1)
}
