// The suites: the module zips of these carry their tests. `go.sum` pins their content.
module parshall/sdk-suites

go 1.25.0

require (
	github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2 v2.0.2
	github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus v1.11.0
	github.com/Azure/azure-sdk-for-go/sdk/storage/azblob v1.8.3
	github.com/Azure/go-amqp v1.7.0
)
