package parshalltest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say what is served. Without hubs, queues and topics there is a hub "events" with 4 partitions.
type Options struct {
	Hubs   []Hub
	Queues []Queue
	Topics []Topic
	// Containers are names of blob containers. With any, or with Blobs, blobs are served.
	Containers []string
	Blobs      bool
	// Kafka serves hubs to clients of Kafka, too.
	Kafka bool
	// TLS serves everything over TLS besides.
	TLS bool
	// DataDirectory keeps everything over restarts; without it, everything is in memory.
	DataDirectory string
	// Arguments are more arguments of `parshall serve`, which come before what is said here.
	Arguments []string
	// Timeout is the time until the service must be ready: 30 s, if it is zero.
	Timeout time.Duration
}

// Hub is a hub, of 4 partitions unless it says otherwise.
type Hub struct {
	Name           string   `json:"name"`
	Partitions     int      `json:"partitions"`
	ConsumerGroups []string `json:"consumer_groups,omitempty"`
}

// Queue is a queue. Options that are zero have the default of the service.
type Queue struct {
	Name                      string `json:"name"`
	RequiresSession           bool   `json:"requires_session,omitempty"`
	MaximumDeliveryCount      int    `json:"maximum_delivery_count,omitempty"`
	LockDuration              string `json:"lock_duration,omitempty"`
	DefaultTimeToLive         string `json:"default_time_to_live,omitempty"`
	DeadLetteringOnExpiration bool   `json:"dead_lettering_on_expiration,omitempty"`
	DuplicateDetection        string `json:"duplicate_detection,omitempty"`
	ForwardTo                 string `json:"forward_to,omitempty"`
}

// Topic is a topic with subscriptions.
type Topic struct {
	Name          string         `json:"name"`
	Subscriptions []Subscription `json:"subscriptions"`
}

// Subscription is a subscription of a topic, which receives every message unless its rules say otherwise.
type Subscription struct {
	Name                 string `json:"name"`
	RequiresSession      bool   `json:"requires_session,omitempty"`
	MaximumDeliveryCount int    `json:"maximum_delivery_count,omitempty"`
	LockDuration         string `json:"lock_duration,omitempty"`
	Rules                []Rule `json:"rules,omitempty"`
}

// Rule is a filter in SQL, such as "priority > 5".
type Rule struct {
	Name   string `json:"name"`
	Filter Filter `json:"filter"`
	Action string `json:"action,omitempty"`
}

// Filter is the condition of a rule.
type Filter struct {
	SQL string `json:"sql"`
}

// Subscriptions are subscriptions that receive every message.
func Subscriptions(names ...string) []Subscription {
	subscriptions := make([]Subscription, len(names))
	for index, name := range names {
		subscriptions[index].Name = name
	}
	return subscriptions
}

const (
	anyPort           = "127.0.0.1:0"
	defaultPartitions = 4
	defaultTimeout    = 30 * time.Second
)

// namespace is the content of the namespace file.
type namespace struct {
	Hubs   []Hub   `json:"hubs"`
	Queues []Queue `json:"queues,omitempty"`
	Topics []Topic `json:"topics,omitempty"`
	Blob   *blob   `json:"blob,omitempty"`
}

type blob struct {
	Containers []string `json:"containers"`
}

// command gives the arguments of the service. Its files are in directory.
func (options Options) command(directory string) ([]string, error) {
	given := slices.Clone(options.Arguments)
	if options.isNamed() || len(options.Containers) > 0 {
		file := filepath.Join(directory, "namespace.json")
		content, err := json.Marshal(options.namespace())
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, err
		}
		given = append(given, "--config", file)
	}
	command := append([]string{"serve", "--stop-on-stdin-close", "--format", "json"}, given...)
	usual := func(option, value string) {
		isThis := func(argument string) bool { return strings.SplitN(argument, "=", 2)[0] == option }
		if !slices.ContainsFunc(given, isThis) {
			command = append(command, option, value)
		}
	}
	usual("--amqp", anyPort)
	usual("--http", anyPort)
	for option, serves := range map[string]bool{"--blob": options.Blobs || len(options.Containers) > 0, "--kafka": options.Kafka} {
		if serves {
			usual(option, anyPort)
		}
		if serves && options.TLS {
			usual(option+"-tls", anyPort)
		}
	}
	if options.TLS {
		usual("--amqps", anyPort)
		usual("--tls-directory", filepath.Join(directory, "tls"))
	}
	if options.DataDirectory != "" {
		usual("--data-dir", options.DataDirectory)
	}
	return command, nil
}

func (options Options) isNamed() bool {
	return len(options.Hubs)+len(options.Queues)+len(options.Topics) > 0
}

func (options Options) namespace() namespace {
	hubs := slices.Clone(options.Hubs)
	if !options.isNamed() {
		hubs = []Hub{{Name: "events"}}
	}
	for index := range hubs {
		if hubs[index].Partitions == 0 {
			hubs[index].Partitions = defaultPartitions
		}
	}
	topics := slices.Clone(options.Topics)
	for index := range topics {
		if topics[index].Subscriptions == nil {
			topics[index].Subscriptions = []Subscription{}
		}
	}
	described := namespace{Hubs: hubs, Queues: options.Queues, Topics: topics}
	if hubs == nil {
		described.Hubs = []Hub{}
	}
	if len(options.Containers) > 0 {
		described.Blob = &blob{Containers: options.Containers}
	}
	return described
}
