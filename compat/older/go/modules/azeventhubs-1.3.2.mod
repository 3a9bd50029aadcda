module parshall/older

go 1.25.0

require (
	github.com/Azure/azure-sdk-for-go/sdk/azcore v1.18.0
	github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs v1.3.2
	github.com/Azure/azure-sdk-for-go/sdk/storage/azblob v1.6.0
)

require (
	github.com/Azure/azure-sdk-for-go/sdk/internal v1.11.0 // indirect
	github.com/Azure/go-amqp v1.4.0 // indirect
	golang.org/x/net v0.38.0 // indirect
	golang.org/x/text v0.23.0 // indirect
)
