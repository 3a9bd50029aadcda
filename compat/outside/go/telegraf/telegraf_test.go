// Package telegraf tests Telegraf's plugin eventhub_consumer, which uses the first Go library of Event Hubs, and that library.
//
// The library refuses hosts without a dot, so the service has to be known by such a name or by its address.
package telegraf

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	eventhub "github.com/Azure/azure-event-hubs-go/v3"
	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/inputs/eventhub_consumer"
	"github.com/influxdata/telegraf/plugins/parsers/influx"
	"github.com/influxdata/telegraf/testutil"
	"parshall/older/service"
)

const (
	events = 200
	// The timeout of everything that must arrive.
	timeout = 40 * time.Second
	// The time after which a test takes it that nothing arrives.
	silence = time.Second
)

func TestEventsAreMetricsOnceAlsoAfterARestart(t *testing.T) {
	running := service.Start(t)
	// Go reads once which authorities a process trusts.
	t.Setenv("SSL_CERT_FILE", running.Authority)
	connection := strings.Replace(running.ConnectionString, "localhost", "127.0.0.1", 1) + ";EntityPath=events"
	offsets := t.TempDir()

	send(t, connection, 0, events)
	// Without a time to start from, the library fails where no offset is stored yet.
	first := consume(t, connection, offsets, time.Now().Add(-time.Hour), events)
	send(t, connection, events, 10)
	second := consume(t, connection, offsets, time.Time{}, 10)
	seen := map[int64]int{}
	for _, metric := range append(first, second...) {
		number, _ := metric.GetField("number")
		seen[number.(int64)]++
	}
	for number := range int64(events + 10) {
		if seen[number] != 1 {
			t.Errorf("event %d was read %d times", number, seen[number])
		}
	}
}

// send sends lines of InfluxDB's protocol.
func send(t *testing.T, connection string, first, count int) {
	t.Helper()
	deadline, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	hub, err := eventhub.NewHubFromConnectionString(connection)
	succeeds(t, err)
	defer hub.Close(deadline)
	information, err := hub.GetRuntimeInformation(deadline)
	succeeds(t, err)
	if len(information.PartitionIDs) != 2 {
		t.Fatalf("the partitions are %v", information.PartitionIDs)
	}
	batch := make([]*eventhub.Event, count)
	for number := range batch {
		batch[number] = eventhub.NewEventFromString(fmt.Sprintf("weather number=%di", first+number))
	}
	succeeds(t, hub.SendBatch(deadline, eventhub.NewEventBatchIterator(batch...)))
}

// consume runs the plugin until it has this many metrics, and gives them.
func consume(t *testing.T, connection, offsets string, from time.Time, count int) []telegraf.Metric {
	t.Helper()
	parser := &influx.Parser{}
	succeeds(t, parser.Init())
	plugin := &eventhub_consumer.EventHub{
		ConnectionString: connection,
		PersistenceDir:   offsets,
		ConsumerGroup:    "$Default",
		FromTimestamp:    from,
		Log:              testutil.Logger{},
	}
	plugin.SetParser(parser)
	succeeds(t, plugin.Init())
	accumulator := &testutil.Accumulator{}
	started := make(chan error, 1)
	go func() { started <- plugin.Start(accumulator) }()
	select {
	case err := <-started:
		succeeds(t, err)
	case <-time.After(timeout):
		// The plugin waits as long as the service refuses it, without a word.
		t.Fatal("the plugin does not start")
	}
	end := time.Now().Add(timeout)
	for accumulator.NMetrics() < uint64(count) && time.Now().Before(end) {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(silence)
	plugin.Stop()
	metrics := accumulator.GetTelegrafMetrics()
	if len(metrics) != count {
		t.Fatalf("there are %d metrics, not %d", len(metrics), count)
	}
	return metrics
}

func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
