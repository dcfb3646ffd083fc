// What goes over the wire, under the wire's own names: docs/protocol.md.
import type { Fault } from './fault.js'

export interface SessionInfo {
  id: string
  name?: string
  language: string
  /** running, paused, hibernated, resuming or lost. */
  state: string
  /** Why it is lost: memory, killed, crashed, exited, host, expired or upgraded. */
  reason?: string
  created_ms: number
  expires_ms?: number
  active_ms: number
  channels: ChannelInfo[]
  template?: string
  /** Being idle is no reason to pause it. */
  keep_alive?: boolean
  /** In what refresh and session give, of a session that runs. */
  usage?: { memory_bytes: number; memory_peak_bytes?: number; cpu_ms: number; tasks: number }
  /** -1 is never. */
  idle_pause_seconds?: number
  idle_hibernate_seconds?: number
  limits?: Limits
  /** The session or the snapshot that it is a copy of. */
  origin?: string
  /** It comes back after the server was killed; as of recovered_ms, once it has. */
  durable?: boolean
  kept_ms?: number
  recovered_ms?: number
  volumes?: Mount[]
  /** The hosts that it may reach outside; without it, none. */
  network?: { allow: string[] }
}

/** What a session may use; what is left out is the template's, or the server's. */
export interface Limits {
  memory_bytes?: number
  cpus?: number
  processes?: number
  open_files?: number
  disk_bytes?: number
  tmp_bytes?: number
  inodes?: number
  output_bytes_per_second?: number
  cell_seconds?: number
}

/** Where a session has a volume: in the folder /volumes/NAME. */
export interface Mount {
  name: string
  /** Where a link to it is made: a new name in the home, or directly below /. */
  path?: string
  read_only?: boolean
}

/** What becomes of a session that is attached. */
export interface SessionState {
  session: string
  /** hibernated, resuming or running. */
  state: string
  /** How far it has come while it is resuming: room, memory, kernels. */
  phase?: string
  percent?: number
}

export interface SessionUpdate {
  name?: string
  /** -1 is never. */
  idle_pause_seconds?: number
  idle_hibernate_seconds?: number
  keep_alive?: boolean
  /** From now. */
  lifetime_seconds?: number
}

export interface SnapshotInfo {
  id: string
  name?: string
  session: string
  language: string
  created_ms: number
  expires_ms?: number
  bytes: number
  /** For how long the session stood still. */
  pause_ms: number
}

export interface TemplateInfo {
  name: string
  spec: Record<string, unknown>
  /** building, ready or failed. */
  state: string
  error?: string
  /** What its build has printed; of one that was asked for by name. */
  log?: string
  languages: string[]
  created_ms: number
  bytes: number
  ready: number
  size: number
}

export interface VolumeInfo {
  name: string
  created_ms: number
  max_bytes: number
  /** When it was last measured. */
  bytes: number
  files: number
  /** That have it, hibernated ones included. */
  sessions: number
  lease?: Lease
}

/** The right to a volume that those who share it agree on. */
export interface Lease {
  /** Grows with each lease of the volume. */
  token: number
  holder?: string
  expires_ms: number
}

export interface ProcessInfo {
  pid: number
  ppid: number
  user: string
  /** running, sleeping, waiting, stopped or zombie. */
  state: string
  cpu_ms: number
  memory_bytes: number
  command: string
  /** What it descends from. */
  channel?: string
}

export interface PortInfo {
  port: number
  address: string
}

export interface PortURL {
  port: number
  url: string
  expires_seconds: number
}

/** What was made of an archive. */
export interface TreeInfo {
  path: string
  files: number
  folders: number
  links: number
  /** Devices, fifos and the like. */
  skipped: number
  bytes: number
}

export interface FileChange {
  path: string
  /** created, modified or removed; what was moved is removed and created. */
  kind: string
  dir?: boolean
}

export interface FileChanges {
  changes: FileChange[]
  /** There was more than could be told, or a connection was lost: look for yourself. */
  overflow: boolean
}

export interface SessionCreate {
  /** Is warm in it; others can be opened too. Empty means python. */
  language?: string
  name?: string
  env?: Record<string, string>
  /** What it starts from, in place of the server's own image. */
  template?: string
  lifetime_seconds?: number
  limits?: Limits
  /** -1 is never. */
  idle_pause_seconds?: number
  idle_hibernate_seconds?: number
  keep_alive?: boolean
  /** The id or the name of one to go on from. */
  snapshot?: string
  /** Let it come back after the server was killed. */
  durable?: boolean
  volumes?: Mount[]
  /** What it may reach outside: true for all that the server lets out. */
  network?: boolean | { allow: string[] }
}

export interface ChannelInfo {
  id: string
  /** kernel, process or terminal. */
  kind: string
  language?: string
  argv?: string[]
  /** starting, idle, busy, running, exited or dead. */
  state: string
  exit?: Exit
  info?: Record<string, unknown>
  queued?: number
  /** Of a terminal: its size, and what the program in it calls its window. */
  cols?: number
  rows?: number
  title?: string
  epoch: number
  oldest: number
  end: number
}

export interface ProgramStart {
  argv?: string[]
  /** In place of argv: run this file the language's own way. */
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

export interface Exit {
  /** Below 0 when the program was ended from outside; reason then says how. */
  code: number
  signal?: string
  reason?: string
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

/** What a widget's two ends tell each other. */
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
  /** Something happened to the channel, such as restart, or epoch: its history began anew. */
  | (Stamp & { type: 'event'; event: string; [more: string]: unknown })

/** What comes of a cell, in Jupyter's shapes. execute_reply is the last. */
export type CellEvent =
  | TextEvent
  | ChannelEvent
  | (Stamp & { type: 'execute_input'; key: string; code: string; execution_count: number })
  | (Stamp & { type: 'display_data' | 'update_display_data' } & Bundle)
  | (Stamp & { type: 'execute_result'; execution_count: number } & Bundle)
  | (Stamp & { type: 'error'; ename: string; evalue: string; traceback: string[] })
  | (Stamp & { type: 'clear_output'; wait: boolean })
  | (Stamp & { type: 'input_request'; prompt: string; password: boolean })
  | (Stamp & { type: 'status'; execution_state: string })
  | (Stamp & { type: 'comm_open' | 'comm_msg' | 'comm_close' } & CommContent)
  /** What became of the kernel's state: restored, state_lost or notice. */
  | (Stamp & { type: 'kernel_event'; event: string; message: string })
  | (Stamp & { type: 'execute_reply' } & ExecuteReply)
  /** A message that this client does not know. */
  | (Stamp & { type: 'message'; msg_type: string; content: unknown })

/** What comes of a program. exit is the last. */
export type ProgramEvent =
  | TextEvent
  | ChannelEvent
  /** To be written to a terminal of that size, fresh or reset: the state that the output up to here left it in. */
  | (Stamp & { type: 'restore'; cols: number; rows: number; bytes: Uint8Array })
  | (Stamp & { type: 'exit' } & Exit)

export interface Completion {
  matches?: { text: string; type?: string }[]
  cursor_start?: number
  cursor_end?: number
}

export interface Inspection {
  found?: boolean
  data?: Record<string, unknown>
}

export interface Completeness {
  /** complete, incomplete, invalid or unknown. */
  is_complete: string
  indent?: string
}

export interface Variable {
  name: string
  type: string
  size?: string
  value: string
}

export interface HistoryEntry {
  cell: number
  execution_count: number
  code: string
  /** running, ok or error. */
  status: string
}

export interface FileInfo {
  path: string
  /** file, folder, link, fifo, socket or device; link in a listing alone. */
  type?: string
  /** Where a link leads. */
  target?: string
  size: number
  mode: number
  modified_ms: number
  dir: boolean
  /** Changes whenever the content or the mode does. */
  etag?: string
}

/** How many connections are at a session: drivers may do something there, viewers only look. */
export interface Presence {
  session: string
  drivers: number
  viewers: number
  /** Of channels that somebody has attached, by id. */
  channels?: Record<string, { drivers: number; viewers: number }>
}

export interface Description {
  protocol: string
  server: string
  languages: { name: string; display_name: string; aliases?: string[]; extensions?: string[] }[]
  scopes: string[]
  limits: Record<string, number>
}

export interface RunRequest {
  code: string
  language?: string
  /** Answers the code's requests for input, line by line; without it they fail at once. */
  stdin?: string
  /** Makes them input_request events. */
  interactive?: boolean
  files?: { path: string; content: string; encoding?: 'utf-8' | 'base64' }[]
  timeout_ms?: number
  max_output_bytes?: number
  /** An existing session; otherwise one is made and thrown away. */
  session?: string
}

/** What comes of a run. done is the last. */
export type RunEvent =
  | { type: 'start'; session: string; channel: string; cell: number }
  | { type: 'stdout' | 'stderr'; text: string }
  | { type: 'display'; data: Record<string, unknown>; metadata: Record<string, unknown>; display_id?: unknown; update?: boolean }
  | { type: 'result'; data: Record<string, unknown>; metadata: Record<string, unknown>; execution_count?: number }
  | { type: 'clear'; wait?: boolean }
  /** An interactive run waits for input. */
  | { type: 'input_request'; prompt?: string; password?: boolean }
  | { type: 'error'; ename: string; evalue: string; traceback: string[] }
  | { type: 'truncated'; bytes: number }
  | {
      type: 'done'
      /** ok, error, aborted, timeout, lost or failed. */
      status: string
      exit_code?: number
      elapsed_ms: number
      fault?: Fault
    }

/** Ends what it is given to; without it nothing but the server limits the time. */
export interface Abortable {
  signal?: AbortSignal | undefined
}
