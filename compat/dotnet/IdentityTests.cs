using Azure.Core;
using Azure.Identity;
using Azure.Messaging.EventHubs;
using Azure.Messaging.EventHubs.Producer;
using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;
using Azure.Storage.Blobs;

namespace Parshall.Compat;

/// <summary>Microsoft Entra ID: DefaultAzureCredential with the issuer of the service's own.</summary>
public sealed class IdentityTests : IAsyncLifetime
{
    private const string Namespace = """
        hubs: [{name: events, partitions: 1}]
        queues: [{name: jobs}]
        blob: {containers: [box]}
        """;

    /// <summary>An identity that somebody has assigned to a deployment.</summary>
    private const string Assigned = "01234567-89ab-cdef-0123-456789abcdef";

    private static readonly string[] Variables =
        ["IDENTITY_ENDPOINT", "IDENTITY_HEADER", "AZURE_AUTHORITY_HOST", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"];

    private Service service = null!;

    public async Task InitializeAsync()
    {
        // The authority that `run` has had made, and has this process trust.
        var tls = Environment.GetEnvironmentVariable("COMPAT_TLS_DIRECTORY")!;
        service = await Service.StartAsync(Namespace, "--amqps", "127.0.0.1:0", "--blob-tls", "127.0.0.1:0",
            "--dev-identity", "127.0.0.1:0", "--dev-identity-tls", "127.0.0.1:0", "--tls-directory", tls);
    }

    public async Task DisposeAsync()
    {
        SetVariables([]);
        await service.DisposeAsync();
    }

    [Theory]
    [InlineData("a managed identity")]
    [InlineData("an application with a secret")]
    [InlineData("both")]
    public async Task The_default_credential_opens_everything(string kind)
    {
        Dictionary<string, string> managed = new()
        {
            ["IDENTITY_ENDPOINT"] = service.Told("identity", "managed", "endpoint"),
            ["IDENTITY_HEADER"] = service.Told("identity", "managed", "header"),
        };
        Dictionary<string, string> application = new()
        {
            ["AZURE_AUTHORITY_HOST"] = service.Told("identity", "authority"),
            ["AZURE_TENANT_ID"] = service.Told("identity", "tenant"),
            ["AZURE_CLIENT_ID"] = service.Told("identity", "client"),
            ["AZURE_CLIENT_SECRET"] = service.Told("identity", "secret"),
        };
        SetVariables(kind switch
        {
            "both" => managed.Concat(application),
            "a managed identity" => managed,
            _ => application,
        });
        await UseAsync(new DefaultAzureCredential());
    }

    [Fact]
    public async Task An_identity_that_a_user_has_assigned_has_a_token()
    {
        SetVariables([
            new("IDENTITY_ENDPOINT", service.Told("identity", "managed", "endpoint")),
            new("IDENTITY_HEADER", service.Told("identity", "managed", "header")),
            new("AZURE_CLIENT_ID", Assigned),
        ]);
        await UseAsync(new DefaultAzureCredential());
        await UseAsync(new ManagedIdentityCredential(ManagedIdentityId.FromUserAssignedObjectId(Assigned)));
    }

    private static void SetVariables(IEnumerable<KeyValuePair<string, string>> values)
    {
        foreach (var name in Variables)
        {
            Environment.SetEnvironmentVariable(name, null);
        }
        foreach (var (name, value) in values)
        {
            Environment.SetEnvironmentVariable(name, value);
        }
    }

    private async Task UseAsync(TokenCredential credential)
    {
        var port = service.Address("amqp", tls: true).Split(':').Last();
        var endpoint = new Uri($"sb://localhost:{port}");
        await using var client = new ServiceBusClient("localhost", credential, new ServiceBusClientOptions { CustomEndpointAddress = endpoint });
        await client.CreateSender("jobs").SendMessageAsync(new ServiceBusMessage("job"));
        var receiver = client.CreateReceiver("jobs");
        var message = await receiver.ReceiveMessageAsync(Service.Patience);
        Assert.Equal("job", message.Body.ToString());
        await receiver.CompleteMessageAsync(message);

        var administration = new ServiceBusAdministrationClient($"https://localhost:{port}", credential);
        Assert.True((await administration.QueueExistsAsync("jobs")).Value);

        var options = new EventHubProducerClientOptions { ConnectionOptions = new EventHubConnectionOptions { CustomEndpointAddress = endpoint } };
        await using var producer = new EventHubProducerClient("localhost", "events", credential, options);
        await producer.SendAsync([new EventData("event")]);

        var account = new Uri($"https://{service.Address("blob", tls: true)}/devstoreaccount1");
        var blob = new BlobServiceClient(account, credential).GetBlobContainerClient("box").GetBlobClient("one");
        await blob.UploadAsync(new BinaryData("content"), overwrite: true);
        Assert.Equal("content", (await blob.DownloadContentAsync()).Value.Content.ToString());
    }
}
