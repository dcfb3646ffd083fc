import type { SandgateError } from './fault.js'

/** A WebSocket as the connection needs it. */
export interface Socket {
  send(data: string | Uint8Array): void
  /** Says goodbye and ends it. Without effect on one that has ended. */
  close(code: number, reason: string): void
}

/** What a Socket tells, closed exactly once and last. */
export interface SocketEvents {
  open(): void
  message(data: string | Uint8Array): void
  /** error says more than the code, where it is known. */
  closed(code: number, reason: string, error?: SandgateError): void
}

/** Who is calling; a ticket goes before a token. */
export interface Credentials {
  token?: string | undefined
  ticket?: string | undefined
}

/** What differs between browsers and Node. */
export interface Platform {
  name: string
  /** Whether an upgrade can carry a token. Without that a ticket is needed. */
  headers: boolean
  openSocket(url: URL, who: Credentials, events: SocketEvents): Socket
  /** Calls back when the machine or the page wakes up. Returns what stops that. */
  onWake(wake: () => void): () => void
  /** Sends a body, telling how much of it is on its way. */
  upload(request: Upload): Promise<{ status: number; retryAfter: string | null; body: string }>
}

export interface Upload {
  url: string
  headers: Record<string, string>
  body: Blob | ReadableStream<Uint8Array>
  signal: AbortSignal | undefined
  progress: ((sent: number) => void) | undefined
}

export const subprotocol = 'sandgate.v1'

/** The subprotocols that an upgrade offers. */
export function protocols(who: Credentials): string[] {
  return who.ticket ? [subprotocol, who.ticket.startsWith('ticket.') ? who.ticket : `ticket.${who.ticket}`] : [subprotocol]
}
