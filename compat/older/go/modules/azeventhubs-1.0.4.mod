module parshall/older

go 1.25.0

require (
	github.com/Azure/azure-sdk-for-go/sdk/azcore v1.9.2
	github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs v1.0.4
	github.com/Azure/azure-sdk-for-go/sdk/storage/azblob v1.3.0
)

require (
	github.com/Azure/azure-sdk-for-go/sdk/internal v1.5.2 // indirect
	github.com/Azure/go-amqp v1.0.5 // indirect
	golang.org/x/net v0.21.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)
