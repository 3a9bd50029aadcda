// Package clients tests parshalltest with the official clients, and with the program that it carries.
package clients

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"parshall/parshalltest"
)

const patience = 20 * time.Second

// child says to this program what it is started for.
const child = "PARSHALLTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) == "endless" {
		service, err := parshalltest.Launch(parshalltest.Options{})
		fmt.Println(service.ConnectionString(), err)
		select {}
	}
	os.Exit(m.Run())
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must[Value any](t *testing.T) func(Value, error) Value {
	return func(value Value, err error) Value {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func isListening(address string) bool {
	connection, err := net.DialTimeout("tcp", address, patience)
	if err == nil {
		connection.Close()
	}
	return err == nil
}

func addressOf(connectionString string) string {
	host := strings.Split(strings.TrimPrefix(connectionString, "Endpoint=sb://"), ";")[0]
	return strings.TrimSuffix(host, "/")
}

func TestAnEventAndAMessagePassThroughTheOfficialClients(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	service := parshalltest.Start(t, parshalltest.Options{
		Hubs:   []parshalltest.Hub{{Name: "orders", Partitions: 1}},
		Queues: []parshalltest.Queue{{Name: "jobs", LockDuration: "5 s"}},
	})

	producer := must[*azeventhubs.ProducerClient](t)(
		azeventhubs.NewProducerClientFromConnectionString(service.EventHubsConnectionString(), "orders", nil))
	defer producer.Close(ctx)
	batch := must[*azeventhubs.EventDataBatch](t)(producer.NewEventDataBatch(ctx, nil))
	if err := batch.AddEventData(&azeventhubs.EventData{Body: []byte("an event")}, nil); err != nil {
		t.Fatal(err)
	}
	if err := producer.SendEventDataBatch(ctx, batch, nil); err != nil {
		t.Fatal(err)
	}
	consumer := must[*azeventhubs.ConsumerClient](t)(azeventhubs.NewConsumerClientFromConnectionString(
		service.EventHubsConnectionString(), "orders", azeventhubs.DefaultConsumerGroup, nil))
	defer consumer.Close(ctx)
	earliest := true
	partition := must[*azeventhubs.PartitionClient](t)(consumer.NewPartitionClient(
		"0", &azeventhubs.PartitionClientOptions{StartPosition: azeventhubs.StartPosition{Earliest: &earliest}}))
	defer partition.Close(ctx)
	events := must[[]*azeventhubs.ReceivedEventData](t)(partition.ReceiveEvents(ctx, 1, nil))
	if string(events[0].Body) != "an event" {
		t.Errorf("received %q", events[0].Body)
	}

	client := must[*azservicebus.Client](t)(azservicebus.NewClientFromConnectionString(service.ServiceBusConnectionString(), nil))
	defer client.Close(ctx)
	sender := must[*azservicebus.Sender](t)(client.NewSender("jobs", nil))
	if err := sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("a message")}, nil); err != nil {
		t.Fatal(err)
	}
	receiver := must[*azservicebus.Receiver](t)(client.NewReceiverForQueue("jobs", nil))
	messages := must[[]*azservicebus.ReceivedMessage](t)(receiver.ReceiveMessages(ctx, 1, nil))
	if err := receiver.CompleteMessage(ctx, messages[0], nil); err != nil {
		t.Fatal(err)
	}
	if string(messages[0].Body) != "a message" {
		t.Errorf("received %q", messages[0].Body)
	}
}

func TestEverythingIsServedWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	service := must[*parshalltest.Service](t)(parshalltest.Launch(parshalltest.Options{
		Topics:        []parshalltest.Topic{{Name: "news", Subscriptions: parshalltest.Subscriptions("all")}, {Name: "empty"}},
		Containers:    []string{"kept"},
		Kafka:         true,
		TLS:           true,
		DataDirectory: filepath.Join(t.TempDir(), "data"),
		Arguments:     []string{"--amqp=127.0.0.1:0"},
	}))
	if _, err := os.Stat(service.CertificateAuthority()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(service.StorageConnectionString(), "BlobEndpoint=http://") ||
		!strings.Contains(service.StorageTLSConnectionString(), "BlobEndpoint=https://") {
		t.Errorf("storage: %q and %q", service.StorageConnectionString(), service.StorageTLSConnectionString())
	}
	addresses := []string{service.KafkaBootstrapServers(), service.KafkaTLSBootstrapServers(), addressOf(service.TLSConnectionString())}
	for _, address := range addresses {
		if !isListening(address) {
			t.Errorf("nothing listens on %s", address)
		}
	}
	if err := service.Stop(); err != nil {
		t.Error(err, service.Log())
	}
	if isListening(addressOf(service.ConnectionString())) {
		t.Error("a stopped service listens")
	}
	if _, err := os.Stat(service.CertificateAuthority()); !os.IsNotExist(err) {
		t.Error("the temporary folder is still there")
	}
	if err := service.Stop(); err != nil {
		t.Error(err)
	}
}

func TestAProcessThatIsKilledTakesItsServiceAlong(t *testing.T) {
	t.Parallel()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), child+"=endless")
	output := must[interface{ Read([]byte) (int, error) }](t)(process.StdoutPipe())
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	line := must[string](t)(bufio.NewReader(output).ReadString('\n'))
	address := addressOf(line)
	if !isListening(address) {
		t.Errorf("nothing listens: %s", line)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	for deadline := time.Now().Add(patience); isListening(address); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is still listened on", address)
		}
	}
}

func TestWhatCannotBeServedIsSaidWithTheReason(t *testing.T) {
	_, err := parshalltest.Launch(parshalltest.Options{Queues: []parshalltest.Queue{{Name: "jobs", LockDuration: "5 apples"}}})
	if err == nil || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "lock_duration") {
		t.Error(err)
	}
	t.Setenv("PARSHALL", "/nowhere/parshall")
	if _, err := parshalltest.Launch(parshalltest.Options{}); err == nil || !strings.Contains(err.Error(), "PARSHALL=/nowhere/parshall") {
		t.Error(err)
	}
}

// Where a test fails is seen from outside of it.
func TestTheLogIsInTheOutputOfTestsThatFailAlone(t *testing.T) {
	if outcome := os.Getenv(child); outcome != "" {
		parshalltest.Start(t, parshalltest.Options{})
		if outcome == "fails" {
			t.Error("as it is meant to")
		}
		return
	}
	t.Parallel()
	for _, outcome := range []string{"passes", "fails"} {
		process := exec.Command(os.Args[0], "-test.run", t.Name(), "-test.v")
		process.Env = append(os.Environ(), child+"="+outcome)
		output, err := process.CombinedOutput()
		fails := outcome == "fails"
		if (err != nil) != fails || strings.Contains(string(output), "log of parshall serve") != fails {
			t.Errorf("%s: %v\n%s", outcome, err, output)
		}
	}
}
