// Package parshalltest serves Event Hubs, Service Bus, Kafka and blob storage to tests: `parshall serve` as a child process on
// free ports, for the unmodified official clients.
//
// The standard input of the service is a pipe that is never written to. The system closes it when this process ends, however
// it does, and the service stops when it is closed (--stop-on-stdin-close), so no process is left behind.
package parshalltest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Service is a running service.
type Service struct {
	process   *exec.Cmd
	input     io.Closer
	log       *log
	directory string
	announced announcement
	stop      func() error
}

// Start starts a service for a test, which ends with it. If the test fails, its output has the log of the service.
func Start(t testing.TB, options Options) *Service {
	t.Helper()
	service, err := Launch(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Stop(); err != nil {
			t.Errorf("parshall serve did not stop in good order: %s", err)
		}
		if log := service.Log(); t.Failed() && log != "" {
			t.Logf("log of parshall serve (process %d):\n%s", service.ProcessID(), log)
		}
	})
	return service
}

// Launch starts a service, and waits until clients can connect to it. It serves until it is stopped, or this process ends.
func Launch(options Options) (*Service, error) {
	program, err := findProgram(carried)
	if err != nil {
		return nil, err
	}
	directory, err := os.MkdirTemp("", "parshall-")
	if err != nil {
		return nil, err
	}
	arguments, err := options.command(directory)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	service := &Service{log: &log{}, directory: directory}
	service.stop = sync.OnceValue(service.end)
	timeout := options.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	if err := service.run(program, arguments, timeout); err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	return service, nil
}

// ConnectionString is for hubs, queues and topics, over plain TCP.
func (service *Service) ConnectionString() string { return service.announced.ConnectionString }

// EventHubsConnectionString is for the clients of Event Hubs.
func (service *Service) EventHubsConnectionString() string { return service.ConnectionString() }

// ServiceBusConnectionString is for the clients of Service Bus.
func (service *Service) ServiceBusConnectionString() string { return service.ConnectionString() }

// TLSConnectionString is the same over TLS; empty without Options.TLS.
func (service *Service) TLSConnectionString() string { return service.announced.TLSConnectionString }

// StorageConnectionString is for blobs; empty where none are served.
func (service *Service) StorageConnectionString() string {
	return service.announced.StorageConnectionString
}

// StorageTLSConnectionString is the same over TLS; empty without Options.TLS.
func (service *Service) StorageTLSConnectionString() string {
	return service.announced.StorageTLSConnectionString
}

// KafkaBootstrapServers is HOST:PORT for clients of Kafka; empty without Options.Kafka. Their login is SASL PLAIN, with the
// name $ConnectionString, and the connection string as password.
func (service *Service) KafkaBootstrapServers() string {
	return service.announced.address("kafka", false)
}

// KafkaTLSBootstrapServers is the same for TLS.
func (service *Service) KafkaTLSBootstrapServers() string {
	return service.announced.address("kafka", true)
}

// CertificateAuthority is the file (PEM) that clients have to trust; empty without Options.TLS.
func (service *Service) CertificateAuthority() string { return service.announced.CertificateAuthority }

// ProcessID is the number of the service's process.
func (service *Service) ProcessID() int { return service.process.Process.Pid }

// Log is the end of what the service has logged until now.
func (service *Service) Log() string { return service.log.text() }

// Stop stops the service and waits for its end. A second call gives what the first one gave.
func (service *Service) Stop() error { return service.stop() }

func (service *Service) run(program string, arguments []string, timeout time.Duration) error {
	var output io.ReadCloser
	for {
		service.process = exec.Command(program, arguments...)
		service.process.Stderr = service.log
		// Ctrl-C is for the tests, which may need the service while they end.
		service.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		input, err := service.process.StdinPipe()
		if err != nil {
			return err
		}
		service.input = input
		if output, err = service.process.StdoutPipe(); err != nil {
			return err
		}
		err = service.process.Start()
		if err == nil {
			break
		}
		// The file was written a moment ago, and a process that is just being started elsewhere still holds it.
		if !errors.Is(err, syscall.ETXTBSY) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	late := time.AfterFunc(timeout, func() { _ = service.process.Process.Kill() })
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if !late.Stop() {
		_ = service.process.Wait()
		return fmt.Errorf("parshall serve was not ready within %s. Its log:\n%s", timeout, service.Log())
	}
	if err != nil {
		ended := service.process.Wait()
		return fmt.Errorf("parshall serve ended before it was ready (%w):\n%s", ended, service.Log())
	}
	if err := json.Unmarshal(line, &service.announced); err != nil {
		return errors.Join(fmt.Errorf("what parshall serve announces can't be read: %w", err), service.Stop())
	}
	return nil
}

func (service *Service) end() error {
	_ = service.input.Close()
	late := time.AfterFunc(stopPatience, func() { _ = service.process.Process.Kill() })
	err := service.process.Wait()
	late.Stop()
	return errors.Join(err, os.RemoveAll(service.directory))
}

// announcement is what the service says of itself when it is ready.
type announcement struct {
	ConnectionString           string `json:"connection_string"`
	TLSConnectionString        string `json:"tls_connection_string"`
	StorageConnectionString    string `json:"storage_connection_string"`
	StorageTLSConnectionString string `json:"storage_tls_connection_string"`
	CertificateAuthority       string `json:"certificate_authority"`
	Listeners                  []struct {
		Protocol string `json:"protocol"`
		TLS      bool   `json:"tls"`
		Address  string `json:"address"`
	} `json:"listeners"`
}

func (announced *announcement) address(protocol string, tls bool) string {
	for _, listener := range announced.Listeners {
		if listener.Protocol == protocol && listener.TLS == tls {
			return listener.Address
		}
	}
	return ""
}

// log keeps the end of what is written to it.
type log struct {
	mutex sync.Mutex
	kept  []byte
}

func (log *log) Write(text []byte) (int, error) {
	log.mutex.Lock()
	defer log.mutex.Unlock()
	log.kept = append(log.kept, text...)
	if excess := len(log.kept) - keptLog; excess > 0 {
		log.kept = append(log.kept[:0], log.kept[excess:]...)
	}
	return len(text), nil
}

func (log *log) text() string {
	log.mutex.Lock()
	defer log.mutex.Unlock()
	return string(log.kept)
}

const (
	keptLog      = 64 * 1024
	stopPatience = 10 * time.Second
)
