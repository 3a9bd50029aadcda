package compat

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// What must come comes within this.
const patience = 20 * time.Second

// For this long it is looked whether what must not come does.
const silence = 500 * time.Millisecond

const eachKind = 16

var kinds = map[string]string{
	"plain":          "maximum_delivery_count: 3",
	"brief":          "lock_duration: 2 s",
	"sessions":       "requires_session: true",
	"brief-sessions": "requires_session: true, lock_duration: 2 s",
}

// service is `parshall serve` with queues and topics, as a child process on free ports.
type service struct {
	directory        string
	arguments        []string
	address          string
	process          *exec.Cmd
	connectionString string
	// The address for operators.
	http string
	// Where it was told to have one, its address for AMQP with TLS.
	tlsAddress string
	// What a program needs for a token, where it was told to issue some.
	identity map[string]string
}

var (
	shared     *service
	used       sync.Map
	sharedOnce sync.Once
)

// TestMain ends the service that the tests shared.
func TestMain(m *testing.M) {
	status := m.Run()
	if shared != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "the service:", err)
			status = 1
		}
		os.RemoveAll(shared.directory)
	}
	os.Exit(status)
}

// unusedQueue is a queue that no other test takes.
func unusedQueue(t *testing.T, kind string) string {
	t.Helper()
	counter, _ := used.LoadOrStore(kind, new(atomic.Int32))
	number := counter.(*atomic.Int32).Add(1) - 1
	if number >= eachKind {
		t.Fatal("there are more tests than queues")
	}
	return fmt.Sprintf("%s-%d", kind, number)
}

// sharedClient is a client, of a service that all tests share, which does not try again.
func sharedClient(t *testing.T) *azservicebus.Client {
	t.Helper()
	sharedOnce.Do(func() {
		directory, err := os.MkdirTemp("", "compat-go-")
		if err != nil {
			t.Fatal(err)
		}
		started := &service{directory: directory}
		if err := started.start(); err != nil {
			t.Fatal(err)
		}
		shared = started
	})
	return client(t, shared, azservicebus.RetryOptions{MaxRetries: -1})
}

func client(t *testing.T, of *service, retry azservicebus.RetryOptions) *azservicebus.Client {
	t.Helper()
	options := &azservicebus.ClientOptions{RetryOptions: retry}
	made := must(azservicebus.NewClientFromConnectionString(of.connectionString, options))(t)
	t.Cleanup(func() { _ = made.Close(context.Background()) })
	return made
}

func (s *service) start() error {
	config := filepath.Join(s.directory, "namespace.yaml")
	if err := os.WriteFile(config, configuration(), 0o600); err != nil {
		return err
	}
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	arguments := append([]string{"serve", "--config", config, "--http", "127.0.0.1:0", "--amqp", s.address}, s.arguments...)
	s.process = exec.Command(os.Getenv("PARSHALL_BINARY"), arguments...)
	var log bytes.Buffer
	s.process.Stderr = &log
	output, err := s.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return err
	}
	s.identity = map[string]string{}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		line := lines.Text()
		words := strings.Fields(line)
		name, value, isAssignment := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case isAssignment && (strings.HasPrefix(name, "IDENTITY_") || strings.HasPrefix(name, "AZURE_")):
			s.identity[name] = value
		case strings.HasPrefix(line, "AMQP over TLS "):
			s.tlsAddress = words[len(words)-1]
		case line == "Ready.":
			return nil
		case strings.HasSuffix(line, "UseDevelopmentEmulator=true") && !strings.Contains(line, "EntityPath"):
			s.connectionString = words[len(words)-1]
		case len(words) == 2 && words[0] == "AMQP":
			s.address = words[1]
		case len(words) == 2 && words[0] == "Health":
			s.http = strings.TrimSuffix(words[1], "/health")
		}
	}
	return fmt.Errorf("it did not start: %s", log.String())
}

// stop asks it to end, which it must do in good order.
func (s *service) stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.process.Wait()
}

// kill ends it as a crash does.
func (s *service) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

func configuration() []byte {
	var yaml bytes.Buffer
	yaml.WriteString("queues:\n")
	for kind, options := range kinds {
		for number := range eachKind {
			fmt.Fprintf(&yaml, "  - {name: %s-%d, %s}\n", kind, number, options)
		}
	}
	yaml.WriteString("  - {name: full, size_limit: 100 KiB}\n")
	yaml.WriteString("topics:\n  - {name: news, subscriptions: [{name: all}]}\n")
	return yaml.Bytes()
}

// within is a context that ends when patience does.
func within(t *testing.T) context.Context {
	t.Helper()
	deadline, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return deadline
}

// must gives a value whose making must not fail.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		succeeds(t, err)
		return value
	}
}

func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, what string, found, expected T) {
	t.Helper()
	if found != expected {
		t.Fatalf("%s is %v, not %v", what, found, expected)
	}
}
