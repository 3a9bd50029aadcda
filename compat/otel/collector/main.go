// A collector of OpenTelemetry: the OTLP receiver of the official Collector, and behind it lines of JSON.
//
// The first line of standard output is the endpoint. Each line after that is an export of traces or metrics as OTLP's JSON has it.
// The program ends with its standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	// The receiver does not tell which port it was given, so it is given one that was free just now.
	var address string
	var parts []component.Component
	var err error
	for range 10 {
		if address, err = freeAddress(); err != nil {
			break
		}
		if parts, err = start(address); err == nil {
			break
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	lines.write([]byte("http://"+address), nil)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		log.Fatal(err)
	}
	for _, part := range parts {
		if err := part.Shutdown(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// start starts a receiver of traces and metrics, which are one server.
func start(address string) ([]component.Component, error) {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
	settings := receiver.Settings{
		ID:                component.NewID(factory.Type()),
		TelemetrySettings: componenttest.NewNopTelemetrySettings(),
		BuildInfo:         component.NewDefaultBuildInfo(),
	}
	background := context.Background()
	traces, err := consumer.NewTraces(func(_ context.Context, traces ptrace.Traces) error {
		return lines.write((&ptrace.JSONMarshaler{}).MarshalTraces(traces))
	})
	if err != nil {
		return nil, err
	}
	metrics, err := consumer.NewMetrics(func(_ context.Context, metrics pmetric.Metrics) error {
		return lines.write((&pmetric.JSONMarshaler{}).MarshalMetrics(metrics))
	})
	if err != nil {
		return nil, err
	}
	ofTraces, err := factory.CreateTraces(background, settings, config, traces)
	if err != nil {
		return nil, err
	}
	ofMetrics, err := factory.CreateMetrics(background, settings, config, metrics)
	if err != nil {
		return nil, err
	}
	parts := []component.Component{ofTraces, ofMetrics}
	for _, part := range parts {
		if err := part.Start(background, componenttest.NewNopHost()); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// output is standard output, a line at a time.
type output struct{ sync.Mutex }

var lines output

func (output *output) write(line []byte, err error) error {
	if err != nil {
		return err
	}
	output.Lock()
	defer output.Unlock()
	_, err = fmt.Printf("%s\n", line)
	return err
}
