// Package sarama tests versions of Sarama that many programs are pinned to: a group reads, commits, and reads no record again.
package sarama

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/sarama"
	"parshall/older/service"
)

const (
	topic   = "events"
	group   = "readers"
	records = 500
	// The timeout of everything that must arrive.
	timeout = 40 * time.Second
	// The time after which a test takes it that nothing arrives.
	silence = 2 * time.Second
)

// Versions of Kafka that programs give, which decide on the versions of requests. Event Hubs begins with 1.0.
var versions = []sarama.KafkaVersion{sarama.V1_0_0_0, sarama.V2_0_0_0}

func TestAGroupReadsCommitsAndReadsNoRecordAgain(t *testing.T) {
	for _, version := range versions {
		t.Run(version.String(), func(t *testing.T) {
			running := service.Start(t)
			addresses := []string{running.Kafka}
			config := configured(running, version)

			producer, err := sarama.NewSyncProducer(addresses, config)
			succeeds(t, err)
			produce := func(first, count int) {
				for number := first; number < first+count; number++ {
					body := fmt.Sprint(number)
					_, _, err := producer.SendMessage(&sarama.ProducerMessage{
						Topic: topic, Key: sarama.StringEncoder(body), Value: sarama.StringEncoder(body),
					})
					succeeds(t, err)
				}
			}
			produce(0, records)
			seen := map[string]int{}
			for body, times := range consume(t, addresses, config, records) {
				seen[body] += times
			}
			produce(records, 10)
			for body, times := range consume(t, addresses, config, 10) {
				seen[body] += times
			}
			succeeds(t, producer.Close())
			for number := range records + 10 {
				if times := seen[fmt.Sprint(number)]; times != 1 {
					t.Fatalf("record %d was read %d times", number, times)
				}
			}
		})
	}
}

func TestTopicsAreCreatedListedAndDeleted(t *testing.T) {
	running := service.Start(t)
	for _, version := range versions {
		t.Run(version.String(), func(t *testing.T) {
			admin, err := sarama.NewClusterAdmin([]string{running.Kafka}, configured(running, version))
			succeeds(t, err)
			defer admin.Close()
			succeeds(t, admin.CreateTopic("made", &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false))
			client, err := sarama.NewClient([]string{running.Kafka}, configured(running, version))
			succeeds(t, err)
			defer client.Close()
			partitions, err := client.Partitions("made")
			succeeds(t, err)
			if len(partitions) != 3 {
				t.Fatalf("its partitions are %v", partitions)
			}
			for _, place := range []int64{sarama.OffsetOldest, sarama.OffsetNewest} {
				offset, err := client.GetOffset("made", 0, place)
				succeeds(t, err)
				if offset != 0 {
					t.Fatalf("offset %d of an empty partition", offset)
				}
			}
			succeeds(t, admin.DeleteTopic("made"))
		})
	}
}

func configured(running service.Service, version sarama.KafkaVersion) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = version
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = true
	config.Net.SASL.Enable = true
	config.Net.SASL.User = "$ConnectionString"
	config.Net.SASL.Password = running.ConnectionString
	return config
}

// consume reads as a member of the group until it has this many records, and gives them and how often each came.
func consume(t *testing.T, addresses []string, config *sarama.Config, count int) map[string]int {
	t.Helper()
	members, err := sarama.NewConsumerGroup(addresses, group, config)
	succeeds(t, err)
	var failures []error
	var errors sync.WaitGroup
	errors.Add(1)
	go func() {
		defer errors.Done()
		for err := range members.Errors() {
			failures = append(failures, err)
		}
	}()
	live, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	reader := &reader{seen: map[string]int{}, count: count, done: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		for live.Err() == nil {
			if err := members.Consume(live, []string{topic}, reader); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	select {
	case <-reader.done:
		time.Sleep(silence)
	case <-live.Done():
	}
	stop()
	succeeds(t, <-ended)
	// Commits what is marked.
	succeeds(t, members.Close())
	errors.Wait()
	if len(failures) > 0 {
		t.Fatalf("the group failed: %v", failures)
	}
	reader.Lock()
	defer reader.Unlock()
	if reader.total != count {
		t.Fatalf("%d records came, not %d", reader.total, count)
	}
	return reader.seen
}

type reader struct {
	sync.Mutex
	seen  map[string]int
	total int
	count int
	done  chan struct{}
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		r.Lock()
		r.seen[string(message.Value)]++
		r.total++
		if r.total == r.count {
			close(r.done)
		}
		r.Unlock()
	}
	return nil
}

func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
