import { Keys, Tenants, Tickets } from './access.js'
import { BaseClient, type Options } from './baseclient.js'
import { ExecutionBuilder } from './builder.js'
import { events, type EventOptions } from './feed.js'
import { Notebooks } from './notebooks.js'
import type { Execution } from './results.js'
import { runRequest, streamRun, type RunOnceOptions, type RunStart } from './run.js'
import { creation, Sandbox, type SandboxOptions } from './sandbox.js'
import type { Platform } from './socket.js'
import { Snapshots, Templates, Volumes } from './stores.js'
import type { Abortable, AuditEntry, AuditQuery, FeedEvent, RunEvent, SessionInfo, Status, UsageQuery, UsageSum } from './types.js'
import { Webhooks } from './webhooks.js'

/** A client of one server: HTTP for single requests, one WebSocket for everything else. */
export class Sandgate extends BaseClient<Sandbox> {
  /** Folders that outlive sessions. */
  readonly volumes: Volumes
  /** Saved states of sessions, from which others can start. */
  readonly snapshots: Snapshots
  /** The copies of notebooks that the server keeps. */
  readonly notebooks: Notebooks
  /** The templates of sessions. */
  readonly templates: Templates
  /** API keys. */
  readonly keys: Keys
  /** Tenants and their quotas. */
  readonly tenants: Tenants
  /** Tickets for browsers and run buttons. */
  readonly tickets: Tickets
  /** Requests that the server sends when something happens. */
  readonly webhooks: Webhooks

  constructor(o: Options, platform: Platform) {
    super(o, platform)
    const { core } = this
    this.volumes = new Volumes(core)
    this.snapshots = new Snapshots(core)
    this.notebooks = new Notebooks(core)
    this.templates = new Templates(core)
    this.keys = new Keys(core)
    this.tenants = new Tenants(core)
    this.tickets = new Tickets(core)
    this.webhooks = new Webhooks(core)
  }

  /**
   * Returns the session with a name, which is created if there is none; or, without a name, a new
   * session. With await using, the end of the scope deletes a session without a name.
   */
  override async sandbox(o: SandboxOptions = {}): Promise<Sandbox> {
    return this.of(await this.open(creation(o), o), o.keep ?? o.name !== undefined)
  }

  /**
   * Yields the events of the tenant in their order: sessions created, hibernated or lost, and
   * others. An event of the type gap means that the feed no longer has the events before the next.
   */
  events(o: EventOptions = {}): AsyncGenerator<FeedEvent, void, void> {
    return events(this.core, o)
  }

  /** Runs code in a new sandbox that is discarded afterwards. Code that fails is no exception. */
  async run(code: string, o: RunOnceOptions = {}): Promise<Execution> {
    const builder = new ExecutionBuilder(o.language ?? 'python', 64 << 20)
    try {
      for await (const e of this.stream(code, o)) builder.add(e)
    } catch (e) {
      if (builder.execution.status !== 'timeout') throw e
    }
    return builder.execution
  }

  /** Runs code in a new sandbox, and yields its events. Leaving the loop ends the run. */
  async *stream(code: string, o: RunOnceOptions = {}): AsyncGenerator<RunEvent, void, void> {
    yield* streamRun(this.core.http, await runRequest(code, o), o)
  }

  /**
   * Answers the input_request of a run, by its start event; undefined ends the input. The run must
   * be interactive.
   */
  async runInput(run: RunStart, value: string | undefined, { signal }: Abortable = {}): Promise<void> {
    const { session: id, channel, cell } = run
    const body = { channel, cell, ...(value === undefined ? { eof: true } : { value }) }
    await this.core.request('POST /v1/run/{id}/input', { params: { id }, body, signal })
  }

  /** Stops a run, by its start event. Its last output and its done event follow. */
  async runInterrupt(run: RunStart, { signal }: Abortable = {}): Promise<void> {
    const { session: id, channel, cell } = run
    await this.core.request('POST /v1/run/{id}/interrupt', { params: { id }, body: { channel, cell }, signal })
  }

  /** Returns the state of the gateway and the nodes. It needs the scope admin. */
  status(o: Abortable = {}): Promise<Status> {
    return this.core.http.call(['v1', 'status'], o)
  }

  /** Returns the metrics in the text format of Prometheus. It needs the scope metrics. */
  async metrics(o: Abortable = {}): Promise<string> {
    return (await this.core.http.send(['metrics'], o)).text()
  }

  /** Returns the use of sessions, added up by session, subject, day or label. */
  async usage(o: UsageQuery & Abortable = {}): Promise<UsageSum[]> {
    const { signal, ...query } = o
    return (await this.core.request('GET /v1/usage', { query, signal })).sums
  }

  /** Yields entries of the audit log, oldest first. It needs the scope keys. */
  async *audit(o: AuditQuery & Abortable = {}): AsyncGenerator<AuditEntry, void, void> {
    const { signal, ...query } = o
    for (;;) {
      const page = await this.core.request('GET /v1/audit', { query, signal })
      yield* page.entries
      if (!page.next_cursor || query.limit !== undefined) return
      query.cursor = page.next_cursor
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }

  /** @internal */
  protected override of(info: SessionInfo, keep: boolean): Sandbox {
    return new Sandbox(this.core, info, keep)
  }
}
