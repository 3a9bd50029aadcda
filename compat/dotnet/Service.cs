using System.Diagnostics;
using System.Text.Json;

namespace Parshall.Compat;

/// <summary><c>parshall serve</c> as a child process on free ports, and the ways to use it.</summary>
public sealed class Service : IAsyncDisposable
{
    /// <summary>What must come comes within this.</summary>
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(20);

    private static readonly HttpClient Http = new();

    private readonly DirectoryInfo directory;
    private readonly Process process;
    private readonly JsonElement told;

    private Service(DirectoryInfo directory, Process process, JsonElement told)
    {
        this.directory = directory;
        this.process = process;
        this.told = told;
    }

    /// <summary>Starts one with this namespace, in YAML. In an argument <c>{directory}</c> is a folder of its own.</summary>
    public static async Task<Service> StartAsync(string configuration, params string[] arguments)
    {
        var directory = Directory.CreateTempSubdirectory("compat-dotnet-");
        var file = Path.Combine(directory.FullName, "namespace.yaml");
        await File.WriteAllTextAsync(file, configuration);
        var binary = Environment.GetEnvironmentVariable("PARSHALL_BINARY")
            ?? throw new InvalidOperationException("PARSHALL_BINARY does not say which program to test; compat/dotnet/run does");
        var start = new ProcessStartInfo(binary) { RedirectStandardOutput = true, RedirectStandardError = true };
        string[] all = ["serve", "--config", file, "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--format", "json", .. arguments];
        foreach (var argument in all)
        {
            start.ArgumentList.Add(argument.Replace("{directory}", directory.FullName));
        }
        var process = Process.Start(start)!;
        var log = process.StandardError.ReadToEndAsync();
        var line = await process.StandardOutput.ReadLineAsync();
        return line is null
            ? throw new InvalidOperationException($"it did not start: {await log}")
            : new Service(directory, process, JsonDocument.Parse(line).RootElement);
    }

    /// <summary>For clients over plain TCP.</summary>
    public string ConnectionString => Told("connection_string");

    /// <summary>For clients of blobs.</summary>
    public string StorageConnectionString => Told("storage_connection_string");

    /// <summary>A text of its announcement, by its path.</summary>
    public string Told(params string[] path) =>
        path.Aggregate(told, (found, name) => found.GetProperty(name)).GetString()!;

    /// <summary>The address of a listener.</summary>
    public string Address(string protocol, bool tls) => told.GetProperty("listeners").EnumerateArray()
        .First(it => it.GetProperty("protocol").GetString() == protocol && it.GetProperty("tls").GetBoolean() == tls)
        .GetProperty("address").GetString()!;

    /// <summary>Advances its time, and gives what happened.</summary>
    public async Task<JsonElement> AdvanceAsync(string by)
    {
        using var answer = await Http.PostAsync($"{Told("time")}/advance", new StringContent(by));
        answer.EnsureSuccessStatusCode();
        return JsonDocument.Parse(await answer.Content.ReadAsStringAsync()).RootElement.GetProperty("happened");
    }

    /// <summary>Its time.</summary>
    public async Task<DateTimeOffset> NowAsync()
    {
        var shown = JsonDocument.Parse(await Http.GetStringAsync(Told("time"))).RootElement;
        return DateTimeOffset.FromUnixTimeMilliseconds(shown.GetProperty("now_ms").GetInt64());
    }

    /// <summary>Ends it.</summary>
    public async ValueTask DisposeAsync()
    {
        process.Kill();
        await process.WaitForExitAsync();
        process.Dispose();
        directory.Delete(recursive: true);
    }
}
