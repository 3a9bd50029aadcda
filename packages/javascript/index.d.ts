/** A name, or an object with the keys of a namespace file, such as `{ name: "jobs", requires_session: true }`. */
export type Entity = string | ({ name: string } & Record<string, unknown>);

/** What is served. Without hubs, queues and topics there is a hub `events` with 4 partitions. */
export interface Options {
  /** Hubs: a list, of 4 partitions where nothing else is said, or numbers of partitions by name. */
  hubs?: Entity[] | Record<string, number>;
  queues?: Entity[];
  /** Topics: a list, or lists of subscriptions by name. */
  topics?: Entity[] | Record<string, Entity[]>;
  /** Names of blob containers, which may be none: `[]`. Without it, blobs are not served. */
  containers?: string[];
  /** Serve hubs to clients of Kafka, too. */
  kafka?: boolean;
  /** Serve everything over TLS besides. */
  tls?: boolean;
  /** Keep everything there, over restarts; otherwise in memory. */
  dataDirectory?: string;
  /** More arguments of `parshall serve`, which come before what is said here. */
  arguments?: string[];
  /** Until when it must be ready. Default 30,000. */
  timeoutMs?: number;
}

/** A running service. */
export class Service {
  private constructor();
  /** For hubs, queues and topics, over plain TCP. */
  readonly connectionString: string;
  /** The same, for the clients of Event Hubs. */
  readonly eventHubsConnectionString: string;
  /** The same, for the clients of Service Bus. */
  readonly serviceBusConnectionString: string;
  /** The same over TLS, with `tls`. */
  readonly tlsConnectionString?: string;
  /** For blobs, with `containers`. */
  readonly storageConnectionString?: string;
  /** The same over TLS. */
  readonly storageTlsConnectionString?: string;
  /** `HOST:PORT` for clients of Kafka, with `kafka`. Their login is PLAIN: `$ConnectionString` and the connection string. */
  readonly kafkaBootstrapServers?: string;
  /** The same for TLS. */
  readonly kafkaTlsBootstrapServers?: string;
  /** The file (PEM) that clients have to trust, with `tls`. */
  readonly certificateAuthority?: string;
  /** Everything that the service announces, as `parshall serve --format json` has it. */
  readonly announcement: Record<string, unknown>;
  /** The number of the service's process. */
  readonly processId: number;
  /** The end of what the service has logged until now. */
  log(): string;
  /** Stops the service and waits for its end. A second call waits for the first. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts a service, and gives it back once clients can connect to it. Fails with the service's log if it does not start,
 * and if there is no program: that which `PARSHALL` names, the one in this package, or the one on the `PATH`.
 */
export function start(options?: Options): Promise<Service>;
