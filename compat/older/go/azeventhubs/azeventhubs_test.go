// Package azeventhubs tests older versions of the official client of Event Hubs: send, receive, and checkpoint in blobs.
package azeventhubs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/checkpoints"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"parshall/older/service"
)

const (
	hub        = "events"
	group      = azeventhubs.DefaultConsumerGroup
	events     = 100
	partitions = 2
	// The timeout of everything that must arrive.
	timeout = 40 * time.Second
)

func TestEventsAreSentReceivedAndCheckpointed(t *testing.T) {
	running := service.Start(t)
	deadline, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	options := &azeventhubs.ProducerClientOptions{TLSConfig: running.TLS}
	producer, err := azeventhubs.NewProducerClientFromConnectionString(running.ConnectionString, hub, options)
	succeeds(t, err)
	defer producer.Close(context.Background())
	properties, err := producer.GetEventHubProperties(deadline, nil)
	succeeds(t, err)
	if len(properties.PartitionIDs) != partitions {
		t.Fatalf("there are %d partitions", len(properties.PartitionIDs))
	}
	send := func(partition string, first, count int) {
		batch, err := producer.NewEventDataBatch(deadline, &azeventhubs.EventDataBatchOptions{PartitionID: &partition})
		succeeds(t, err)
		for number := first; number < first+count; number++ {
			succeeds(t, batch.AddEventData(&azeventhubs.EventData{Body: fmt.Appendf(nil, "%s-%d", partition, number)}, nil))
		}
		succeeds(t, producer.SendEventDataBatch(deadline, batch, nil))
	}
	for _, partition := range properties.PartitionIDs {
		send(partition, 0, events)
	}
	seen := processed(t, running, partitions*events)
	for number := range events {
		if seen[fmt.Sprintf("0-%d", number)] != 1 || seen[fmt.Sprintf("1-%d", number)] != 1 {
			t.Fatalf("event %d of each partition was seen %d and %d times", number,
				seen[fmt.Sprintf("0-%d", number)], seen[fmt.Sprintf("1-%d", number)])
		}
	}
	send("1", events, 1)
	// Another processor goes on after the checkpoints of the first.
	seen = processed(t, running, 1)
	if len(seen) != 1 || seen[fmt.Sprintf("1-%d", events)] != 1 {
		t.Fatalf("after the checkpoints there were %v", seen)
	}
}

// processed gives the events that a processor gets until there are this many, and how often.
func processed(t *testing.T, running service.Service, count int) map[string]int {
	t.Helper()
	transport := &http.Client{Transport: &http.Transport{TLSClientConfig: running.TLS}}
	blobs, err := container.NewClientFromConnectionString(running.StorageConnectionString, "checkpoints",
		&container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport}})
	succeeds(t, err)
	store, err := checkpoints.NewBlobStore(blobs, nil)
	succeeds(t, err)
	options := &azeventhubs.ConsumerClientOptions{TLSConfig: running.TLS}
	consumer, err := azeventhubs.NewConsumerClientFromConnectionString(running.ConnectionString, hub, group, options)
	succeeds(t, err)
	defer consumer.Close(context.Background())
	processor, err := azeventhubs.NewProcessor(consumer, store, &azeventhubs.ProcessorOptions{
		LoadBalancingStrategy: azeventhubs.ProcessorStrategyGreedy,
		UpdateInterval:        time.Second,
		StartPositions:        azeventhubs.StartPositions{Default: azeventhubs.StartPosition{Earliest: to.Ptr(true)}},
	})
	succeeds(t, err)
	live, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()

	var lock sync.Mutex
	seen := map[string]int{}
	total := 0
	work := func(partition *azeventhubs.ProcessorPartitionClient) error {
		defer partition.Close(context.Background())
		for {
			soon, cancel := context.WithTimeout(live, time.Second)
			received, err := partition.ReceiveEvents(soon, 50, nil)
			cancel()
			if live.Err() != nil {
				return nil
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			if len(received) == 0 {
				continue
			}
			if err := partition.UpdateCheckpoint(live, received[len(received)-1], nil); err != nil {
				return err
			}
			lock.Lock()
			for _, event := range received {
				seen[string(event.Body)]++
				total++
			}
			if total >= count {
				stop()
			}
			lock.Unlock()
		}
	}
	var workers sync.WaitGroup
	go func() {
		for {
			partition := processor.NextPartitionClient(live)
			if partition == nil {
				return
			}
			workers.Add(1)
			go func() {
				defer workers.Done()
				if err := work(partition); err != nil {
					t.Error(err)
					stop()
				}
			}()
		}
	}()
	if err := processor.Run(live); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	workers.Wait()
	lock.Lock()
	defer lock.Unlock()
	if total < count {
		t.Fatalf("only %d of %d events came", total, count)
	}
	return seen
}

func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
