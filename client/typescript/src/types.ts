// The types of the protocol, under the client's own names. The generated ones are
// made from the server's OpenAPI document; see generate.mjs.
import type { Fault } from './fault.js'
import type { CreatedFile, Exit, KernelReply, SessionUpdate as Update, ViewLinkList } from './protocol.gen.js'

export type {
  Session as SessionInfo,
  SessionList as SessionPage,
  SessionQuery,
  Limits,
  Mount,
  Snapshot as SnapshotInfo,
  Template as TemplateInfo,
  Volume as VolumeInfo,
  Lease,
  Notebook as NotebookInfo,
  NotebookVersion,
  Process as ProcessInfo,
  Port as PortInfo,
  Service,
  ServiceReady,
  ServiceState,
  PortURL,
  PortLink,
  NewPortLink,
  ViewLink as ShareLink,
  CreatedFile as CreatedFileInfo,
  CreatedFiles as CreatedFileList,
  FileLink,
  FeedEvent,
  Key as KeyInfo,
  NewKey,
  Quota,
  Tenant,
  Ticket,
  RunTicket,
  RunLimits,
  TicketRequest,
  Webhook,
  NewWebhook,
  Delivery,
  UsageSum,
  SeriesPoint,
  UsageQuery,
  AuditEntry,
  AuditQuery,
  Status,
  NodeInfo,
  TemplateSpec,
  RunFile,
  Tree as TreeInfo,
  SessionCreate,
  Channel as ChannelInfo,
  Exit,
  KernelVariable as Variable,
  HistoryEntry,
  File as FileInfo,
  Presence,
  Description,
  RunRequest,
} from './protocol.gen.js'

/** A share link without its secret. */
export type ShareLinkInfo = ViewLinkList['links'][number]

/** The properties of a session that can change. */
export type SessionUpdate = Omit<Update, 'session'>

export type Completion = Pick<KernelReply, 'matches' | 'cursor_start' | 'cursor_end'>
export type Inspection = Pick<KernelReply, 'found' | 'data'> & Partial<Pick<KernelReply, 'status' | 'evalue'>>
export type Completeness = Pick<KernelReply, 'is_complete' | 'indent'>

/** The state of an attached session. */
export interface SessionState {
  session: string
  /** hibernated, resuming or running. */
  state: string
  /** The progress while it is resuming: room, memory, kernels. */
  phase?: string
  percent?: number
}

export interface FileChange {
  path: string
  /** created, modified or removed; what was moved is removed and created. */
  kind: string
  dir?: boolean
}

export interface FileChanges {
  changes: FileChange[]
  /** Changes may be missing: there were too many, or a connection was lost. Read the folder. */
  overflow: boolean
}

export interface ProgramStart {
  argv?: string[]
  /** In place of argv: run this file as a program of its language. */
  file?: string
  language?: string
  args?: string[]
  cwd?: string
  env?: Record<string, string>
  /** Give it a standard input. */
  stdin?: boolean
}

export interface TerminalOpen {
  cols?: number
  rows?: number
  /** The user's shell, if left out. */
  argv?: string[]
  cwd?: string
  env?: Record<string, string>
}

export interface ExecuteReply {
  key: string
  status: 'ok' | 'error' | 'aborted'
  execution_count: number
  ename?: string
  evalue?: string
  exit_code?: number
  elapsed_ms: number
}

/** One thing in several MIME types. */
export interface Bundle {
  data: Record<string, unknown>
  metadata: Record<string, unknown>
  transient?: { display_id?: string } & Record<string, unknown>
}

/** A message between the two ends of a widget. */
export interface CommContent {
  comm_id: string
  target_name?: string
  data?: Record<string, unknown>
  metadata?: Record<string, unknown>
  /** In base64. */
  buffers?: string[]
}

export interface Gap {
  /** Offsets of the log between which everything is gone. */
  from: number
  to: number
  bytes: number
}

export interface Stamp {
  /** The execution that this belongs to; 0 for none. */
  cell: number
  /** Microseconds since 1970 UTC. */
  time: number
}

export type TextEvent = Stamp & {
  type: 'stdout' | 'stderr'
  /** Exactly what was written. */
  bytes: Uint8Array
  /** The same as text; a character that is cut between two records comes with the second. */
  text: string
}

export type ChannelEvent =
  /** Output that is no longer there. */
  | (Stamp & { type: 'gap' } & Gap)
  /** Something happened to the channel, such as restart, or epoch: its history began again. */
  | (Stamp & { type: 'event'; event: string; [more: string]: unknown })

/** The events of a cell, in Jupyter's format. execute_reply is the last one. */
export type CellEvent =
  | TextEvent
  | ChannelEvent
  | (Stamp & { type: 'execute_input'; key: string; code: string; execution_count: number })
  | (Stamp & { type: 'display_data' | 'update_display_data' } & Bundle)
  | (Stamp & { type: 'execute_result'; execution_count: number } & Bundle)
  | (Stamp & { type: 'error'; ename: string; evalue: string; traceback: string[] })
  | (Stamp & { type: 'clear_output'; wait: boolean })
  | (Stamp & { type: 'input_request'; prompt: string; password: boolean; request?: number })
  | (Stamp & { type: 'status'; execution_state: string })
  | (Stamp & { type: 'comm_open' | 'comm_msg' | 'comm_close' } & CommContent)
  /** A change of the kernel's state: restored, state_lost or notice. */
  | (Stamp & { type: 'kernel_event'; event: string; message: string })
  | (Stamp & { type: 'execute_reply' } & ExecuteReply)
  /** A message that this client does not know. */
  | (Stamp & { type: 'message'; msg_type: string; content: unknown })

/** The events of a program. exit is the last one. */
export type ProgramEvent =
  | TextEvent
  | ChannelEvent
  /**
   * Text to write to a new or reset terminal of that size: it restores the state after the output
   * so far.
   */
  | (Stamp & { type: 'restore'; cols: number; rows: number; bytes: Uint8Array })
  | (Stamp & { type: 'exit' } & Exit)

/** The events of a run. done is the last one. */
export type RunEvent =
  | { type: 'start'; session: string; channel: string; cell: number }
  | { type: 'stdout' | 'stderr'; text: string }
  | { type: 'display'; data: Record<string, unknown>; metadata: Record<string, unknown>; display_id?: unknown; update?: boolean }
  | { type: 'result'; data: Record<string, unknown>; metadata: Record<string, unknown>; execution_count?: number }
  | { type: 'clear'; wait?: boolean }
  /** An interactive run waits for input. */
  | { type: 'input_request'; prompt?: string; password?: boolean; request?: number }
  | { type: 'error'; ename: string; evalue: string; traceback: string[] }
  | { type: 'truncated'; bytes: number }
  /** The files that the run created or changed. */
  | { type: 'files'; files: CreatedFile[]; files_truncated?: boolean }
  | {
      type: 'done'
      /** ok, error, aborted, timeout, lost or failed. */
      status: string
      exit_code?: number
      elapsed_ms: number
      fault?: Fault
    }

/** Ends the call or iteration; without it only the server limits the time. */
export interface Abortable {
  signal?: AbortSignal | undefined
}
