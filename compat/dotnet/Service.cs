using System.Diagnostics;
using System.Text.Json;

namespace Parshall.Compat;

/// <summary><c>parshall serve</c> as a child process on free ports, and the ways to use it.</summary>
public sealed class Service : IAsyncDisposable
{
    /// <summary>What must come comes within this.</summary>
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(20);

    /// <summary>The argument for a listener at a free port.</summary>
    private const string Free = "127.0.0.1:0";

    private static readonly HttpClient Http = new();

    private readonly DirectoryInfo directory = Directory.CreateTempSubdirectory("compat-dotnet-");
    private readonly string[] command;
    private Process process = null!;
    private JsonElement told;

    private Service(string[] arguments)
    {
        string[] all = ["serve", "--config", "{directory}/namespace.yaml", "--amqp", Free, "--http", Free, "--format", "json", .. arguments];
        command = [.. all.Select(argument => argument.Replace("{directory}", directory.FullName))];
    }

    /// <summary>Starts one with this namespace, in YAML. In an argument <c>{directory}</c> is a folder of its own.</summary>
    public static async Task<Service> StartAsync(string configuration, params string[] arguments)
    {
        var service = new Service(arguments);
        await File.WriteAllTextAsync(Path.Combine(service.directory.FullName, "namespace.yaml"), configuration);
        await service.LaunchAsync();
        return service;
    }

    /// <summary>Kills it and starts it again at the same addresses; what <c>--data-dir</c> keeps is there.</summary>
    public async Task KillAndStartAsync()
    {
        foreach (var protocol in new[] { "amqp", "kafka", "blob" }.Where(it => command.Contains($"--{it}")))
        {
            command[Array.IndexOf(command, $"--{protocol}") + 1] = Address(protocol, tls: false);
        }
        process.Kill();
        await process.WaitForExitAsync();
        process.Dispose();
        await LaunchAsync();
    }

    private async Task LaunchAsync()
    {
        var binary = Environment.GetEnvironmentVariable("PARSHALL_BINARY")
            ?? throw new InvalidOperationException("PARSHALL_BINARY does not say which program to test; compat/dotnet/run does");
        var start = new ProcessStartInfo(binary) { RedirectStandardOutput = true, RedirectStandardError = true };
        foreach (var argument in command)
        {
            start.ArgumentList.Add(argument);
        }
        process = Process.Start(start)!;
        var log = process.StandardError.ReadToEndAsync();
        var line = await process.StandardOutput.ReadLineAsync()
            ?? throw new InvalidOperationException($"it did not start: {await log}");
        told = JsonDocument.Parse(line).RootElement;
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
