// A smaller client for pages that show sessions: their kernels, terminals and files, without the
// methods that run code to its end, and without the rest of the server.
import { BaseClient, type Options } from './baseclient.js'
import { BaseSandbox } from './basesandbox.js'
import { platform } from './browserplatform.js'
import type { SessionInfo } from './types.js'

export type { AttachOptions, Follow, Position } from './attachment.js'
export type { Options, SessionFilter } from './baseclient.js'
export { BaseKernel as Kernel, Cell, type ExecuteOptions, type KernelOptions } from './basekernel.js'
export { BaseSandbox as Sandbox } from './basesandbox.js'
export type { ConnectionState } from './connection.js'
export type { DocumentAddition, DocumentJoined, DocumentLink, DocumentNews, DocumentUpdated, DocumentUser } from './document.js'
export { SandgateError, type Fault, type Kind } from './fault.js'
export { recordKind, type LogRecord } from './frame.js'
export { codePoints, newKey } from './key.js'
export { BaseTerminal as Terminal, type TerminalOptions } from './program.js'
export type { Download, FileContent } from './transfer.js'
export * from './types.js'
export { Viewer } from './viewer.js'

/** A client of one server, for browsers. */
export class Sandgate extends BaseClient<BaseSandbox> {
  constructor(options: Options) {
    super(options, platform)
  }

  /** @internal */
  protected override of(info: SessionInfo): BaseSandbox {
    return new BaseSandbox(this.core, info)
  }
}
